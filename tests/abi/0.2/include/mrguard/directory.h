/* SPDX-License-Identifier: MIT */
/*
 * Peers that find each other through Redis.  See mrg_directory(3).
 *
 * The server is the user's own.  An entry is a name with bytes of the
 * publisher's choice (addresses, descriptors), for as long as its lease is
 * renewed.  A name has one owner at a time: mrg_directory_claim() gives a
 * generation, a later claim a higher one, and who still publishes under a lower
 * one is refused.
 *
 * Every call ends within the timeout, also when the server is stopped, gone or
 * restarted; then it fails with an error of its own, and the next call connects
 * anew.  A handle is for one thread at a time.
 */
#ifndef MRGUARD_DIRECTORY_H
#define MRGUARD_DIRECTORY_H

#include <sys/types.h>
#include <mrguard/common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mrg_directory;

#define MRG_DIRECTORY_MAX_NAME 128
#define MRG_DIRECTORY_MAX_BYTES (1u << 20)

/**
 * struct mrg_directory_opts - how to open
 * @size:	sizeof(struct mrg_directory_opts)
 * @server:	"HOST", "HOST:PORT", "[IPV6]:PORT", or the path of a Unix socket;
 *		NULL: MRGUARD_DIRECTORY, or "127.0.0.1:6379"
 * @password:	NULL: MRGUARD_DIRECTORY_PASSWORD, or none; never told in errors
 * @prefix:	of all keys, so that several groups can use one server; NULL =
 *		"mrguard"
 * @timeout_ms: for each call, connecting included; 0 = 3000
 * @lease_ms:	life of an entry that is not renewed; 0 = 15000
 */
struct mrg_directory_opts {
	size_t size;
	const char *server;
	const char *password;
	const char *prefix;
	uint32_t timeout_ms;
	uint32_t lease_ms;
};

/**
 * mrg_directory_open() - open; connects
 * @directory: OUT, to be closed with mrg_directory_close()
 * @opts: NULL for defaults
 * @error: OUT when it fails; NULL is allowed
 *
 * Return: 0; -EINVAL (malformed options); -ENOMEM; and as all calls here:
 * -ECONNREFUSED, -ENOENT, -EHOSTUNREACH: nobody serves there
 * -ECONNRESET: the server went away in the middle
 * -ETIMEDOUT: it does not answer
 * -EACCES: it wants another password, or forbids the commands
 * -EAGAIN: it is loading its data, or takes no writes for the time being
 * -EPROTO: it is no Redis, or refuses a command for another reason
 */
MRG_API int mrg_directory_open(struct mrg_directory **directory,
			       const struct mrg_directory_opts *opts, struct mrg_error *error);
/** mrg_directory_close() - close; NULL is allowed.  Entries live on until their
 *  lease ends. */
MRG_API void mrg_directory_close(struct mrg_directory *directory);

/** mrg_directory_last_error() - why the calling thread's last failed call
 *  failed.  Return: 0; -ENODATA. */
MRG_API int mrg_directory_last_error(const struct mrg_directory *directory,
				     struct mrg_error *error);

/**
 * mrg_directory_claim() - become a name's owner
 * @name: visible ASCII, up to MRG_DIRECTORY_MAX_NAME bytes
 * @generation: OUT higher than any before
 *
 * Return: 0, or as mrg_directory_open().
 */
MRG_API int mrg_directory_claim(struct mrg_directory *directory, const char *name,
				uint64_t *generation);

/**
 * mrg_directory_publish() - tell of a name, or tell anew, or renew its lease
 * @generation: of mrg_directory_claim()
 * @bytes, @length: up to MRG_DIRECTORY_MAX_BYTES
 *
 * To be repeated before the lease ends, at a third of it, say.  Watchers are
 * told if the bytes or the generation are others than before.
 *
 * Return: 0; -ESTALE (somebody has claimed the name since); -EINVAL (name,
 * length); or as mrg_directory_open().
 */
MRG_API int mrg_directory_publish(struct mrg_directory *directory, const char *name,
				  uint64_t generation, const void *bytes, size_t length);

/** mrg_directory_withdraw() - take it back at once.  0, also where it is gone;
 *  -ESTALE; or as mrg_directory_open(). */
MRG_API int mrg_directory_withdraw(struct mrg_directory *directory, const char *name,
				   uint64_t generation);

/**
 * struct mrg_directory_entry - what the directory knows about a name
 * @lease_ms:	left of its lease
 * @bytes, @length: the publisher's
 * @reserved:	0
 */
struct mrg_directory_entry {
	char name[MRG_DIRECTORY_MAX_NAME + 1];
	uint64_t generation;
	uint64_t lease_ms;
	uint8_t *bytes;
	size_t length;
	uint64_t reserved[2];
};

/**
 * mrg_directory_find() - look a name up
 * @at_least: the generation that the caller knows of already; 0 = any.  A server
 *	that was restored from an old copy shows old entries.
 * @entry: OUT, to be released with mrg_directory_entry_release()
 *
 * Return: 0; -ENOENT (not published, or its lease has ended); -ESTALE (older
 * than @at_least); -EBADMSG (what lies there is not of mrguard);
 * -EPROTONOSUPPORT (of another version, or with a field that this library must not
 * skip: see mrg_directory(3)); or as mrg_directory_open().
 */
MRG_API int mrg_directory_find(struct mrg_directory *directory, const char *name, uint64_t at_least,
			       struct mrg_directory_entry *entry);
/** mrg_directory_entry_release() - free what @entry owns */
MRG_API void mrg_directory_entry_release(struct mrg_directory_entry *entry);

/**
 * enum mrg_directory_what - what happened to a name
 * @MRG_DIRECTORY_APPEARED: published; @entry is whole
 * @MRG_DIRECTORY_CHANGED: other bytes, or another generation; @entry is whole
 * @MRG_DIRECTORY_GONE: withdrawn, or its lease has ended; name and generation
 *			alone
 */
enum mrg_directory_what {
	MRG_DIRECTORY_APPEARED,
	MRG_DIRECTORY_CHANGED,
	MRG_DIRECTORY_GONE,
};

/** mrg_directory_watcher - called by mrg_directory_watch(); must not use the
 *  handle; @entry lives as long as the call */
typedef void (*mrg_directory_watcher)(void *arg, enum mrg_directory_what what,
				      const struct mrg_directory_entry *entry);

/**
 * mrg_directory_watch() - what has changed since the last call
 * @wait_ms: how long to wait for a change; 0: not at all
 * @watcher, @arg: called once for each change; on the first call for each entry
 *	that there is
 *
 * A generation never goes back for a watcher: older entries are passed over.
 * Entries that mrg_directory_find() would refuse as -EBADMSG or -EPROTONOSUPPORT are
 * passed over.  After an error, call it again: it then reports what changed meanwhile.
 *
 * Return: the number of changes, 0 where @wait_ms passed without; or as
 * mrg_directory_open(), after at most @wait_ms and the timeout.
 */
MRG_API ssize_t mrg_directory_watch(struct mrg_directory *directory, uint32_t wait_ms,
				    mrg_directory_watcher watcher, void *arg);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_DIRECTORY_H */
