/* SPDX-License-Identifier: MIT */
/*
 * Buffers for other processes of this machine.  See mrg_share(3).
 *
 * The owner publishes a range and hands its token, a string of bytes, to a peer
 * by any way it has.  The peer imports it: the same physical memory,
 * mapped in one piece.  GPU memory of the VMM interfaces goes chunk by chunk
 * as file descriptors, cudaMalloc() and hipMalloc() memory by IPC handle, host
 * memory as memfds, all by one protocol over a Unix socket that a thread of the
 * owner serves.  Nothing is exported before a peer asks, and nothing is held
 * after it was answered.
 */
#ifndef MRGUARD_SHARE_H
#define MRGUARD_SHARE_H

#include <sys/types.h>
#include <mrguard/common.h>
#include <mrguard/gpu.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mrg_share; /* a process's end: its server, its imports */
struct mrg_range; /* a published range */
struct mrg_import; /* an imported range */

/**
 * struct mrg_share_opts - how to open
 * @size:	sizeof(struct mrg_share_opts)
 * @timeout_ms:	how long a peer may make no progress, on either end; 0 = 5000
 * @gpu:	handle for GPU memory, to be kept until mrg_share_close(); NULL:
 *		host memory alone is shared
 * @dir:	directory for the server's socket file, as an absolute path, for
 *		peers in another network namespace; NULL: that of
 *		MRGUARD_SHARE_DIR, and where this is not set either, an abstract
 *		name, which needs no file.  Copied.
 */
struct mrg_share_opts {
	size_t size;
	uint32_t timeout_ms;
	uint32_t reserved; /* 0 */
	struct mrg_gpu *gpu;
	const char *dir;
};

/**
 * mrg_share_open() - open; one a process is enough
 * @share: OUT, to be closed with mrg_share_close()
 * @opts: NULL for defaults
 *
 * Starts no thread and no server: the first mrg_share_publish() does.
 *
 * Return: 0; -EINVAL (also a relative directory); -ENOMEM; -ENAMETOOLONG (a
 * socket's path is limited to 107 bytes).  Any number of threads may use the
 * handle.  In a child after fork(2) each call fails with -ECHILD.
 */
MRG_API int mrg_share_open(struct mrg_share **share, const struct mrg_share_opts *opts);
/**
 * mrg_share_close() - stop the server, and close; NULL is allowed
 *
 * Ranges are withdrawn.  Imports must have been released before.
 */
MRG_API void mrg_share_close(struct mrg_share *share);

/** mrg_share_last_error() - why the calling thread's last failed call failed.
 *  Return: 0; -ENODATA. */
MRG_API int mrg_share_last_error(const struct mrg_share *share, struct mrg_error *error);

/**
 * struct mrg_memfd - a stretch of host memory, as a file
 * @fd:		a memfd with F_SEAL_SHRINK (a peer must not be able to make
 *		the other's mapping end in SIGBUS); duplicated
 * @offset, @length: of the stretch, multiples of the page size
 */
struct mrg_memfd {
	int fd;
	uint64_t offset;
	uint64_t length;
	uint64_t reserved[2]; /* 0 */
};

/**
 * mrg_share_publish() - make GPU memory available to peers
 * @share: opened with a GPU handle
 * @addr, @length: the range; it may start and end inside a chunk.  Peers get
 *	whole chunks (of cudaMalloc() memory, the whole allocation), and reach
 *	everything in them.
 * @range: OUT, to be withdrawn with mrg_share_unpublish()
 *
 * Memory that was published before and is the same still, gets the same
 * generation; memory that was freed and made again, at the same address or
 * another, gets a new one, and peers with the old token are refused.
 *
 * Return: 0, or
 * -EINVAL: no GPU handle, length 0
 * -EFAULT: not all of the range is mapped; the cause has the hole's address
 * -ERANGE: the range ends outside its allocation
 * -EPERM: a chunk was made without a handle type that allows file descriptors
 * -EOPNOTSUPP: a pool, managed or host memory; imported memory, which its
 *	owner alone can share; or MRGUARD_SHARE_VMM=0
 * -EXDEV: memory of several devices
 * -EAGAIN: no thread can be made for the server
 * -EPERM: all users may write to MRGUARD_SHARE_DIR, and it has no sticky bit
 * -ENOMEM, -EMFILE, -ECHILD, -E2BIG; -EADDRINUSE and others of bind(2)
 */
MRG_API int mrg_share_publish(struct mrg_share *share, uint64_t addr, uint64_t length,
			      struct mrg_range **range);

/**
 * mrg_share_publish_memfds() - make host memory available to peers
 * @fds, @count: the stretches, mapped back to back by a peer
 *
 * Return: 0; -EINVAL (count 0, no memfd, not page-aligned, past the file's
 * end); -EPERM (not sealed against shrinking); and as above.
 */
MRG_API int mrg_share_publish_memfds(struct mrg_share *share, const struct mrg_memfd *fds,
				     size_t count, struct mrg_range **range);

/**
 * mrg_share_unpublish() - withdraw a range; NULL is allowed
 *
 * When it returns, the server touches the memory no more, which may then be
 * freed.  Peers that have mapped it keep it until they release it; the
 * physical memory lives that long.  Peers that are just fetching it get
 * -ESTALE.
 */
MRG_API void mrg_share_unpublish(struct mrg_range *range);

/**
 * mrg_range_token() - the bytes for a peer
 * @bytes: OUT; lives as long as @range
 *
 * They hold the secret that opens the range: a process with the owner's uid and
 * the token can map it.
 *
 * Return: their number.
 */
MRG_API size_t mrg_range_token(const struct mrg_range *range, const void **bytes);
/** mrg_range_generation() - see mrg_share_publish() */
MRG_API uint64_t mrg_range_generation(const struct mrg_range *range);

#define MRG_IMPORT_ALL_DEVICES (1u << 0) /* access for each peer device too */
#define MRG_IMPORT_ON_DEVICE (1u << 1) /* access first for @device */
#define MRG_IMPORT_OWNER (1u << 2) /* believe a process of @owner alone */

/**
 * struct mrg_import_opts - how to import
 * @size:	sizeof(struct mrg_import_opts)
 * @flags:	MRG_IMPORT_*
 * @device:	with MRG_IMPORT_ON_DEVICE: the ordinal of the importer's own
 *		device, which gets access first; without it, 0, and that is the
 *		device that the memory is on
 * @owner:	with MRG_IMPORT_OWNER: the uid that the owner must have, as the
 *		importer's user namespace numbers it; without it, 0, and that is
 *		the uid in the token.  Needed where the owner is in another user
 *		namespace.
 * @reserved:	0
 */
struct mrg_import_opts {
	size_t size;
	uint32_t flags;
	int32_t device;
	uint32_t owner;
	uint32_t reserved;
};

/**
 * mrg_share_import() - map a peer's range
 * @share: for GPU memory, opened with a GPU handle
 * @token, @length: the bytes from the peer; checked, never trusted
 * @opts: NULL for defaults
 * @import: OUT, to be released with mrg_import_release()
 *
 * A second import of the same generation shares the first one's mapping.
 * With MRG_IMPORT_ALL_DEVICES devices that cannot get access are passed over:
 * mrg_import_devices() returns how many have it.
 *
 * Return: 0, or
 * -EINVAL: malformed options
 * -EBADMSG: no token: foreign bytes, too short, or damaged
 * -EPROTONOSUPPORT: the token or the owner has a version, a kind or a part that
 *	this release does not know
 * -EXDEV: of another machine (boot id)
 * -ESTALE: withdrawn, or the memory was freed and made again
 * -EACCES: the process that answers is not one of the owner's user, or the owner
 *	does not serve this user; or the uid cannot be compared, since the owner
 *	is in another user namespace: see MRG_IMPORT_OWNER
 * -ENETUNREACH: the owner's socket has an abstract name in another network
 *	namespace: see MRGUARD_SHARE_DIR
 * -ENOENT: the owner's socket file is not visible here
 * -ECONNREFUSED, -ECONNRESET: the owner is gone, or went while it answered
 * -EBUSY: the owner serves too many peers already
 * -ETIMEDOUT: the owner makes no progress
 * -EPROTO: the owner broke the protocol
 * -EMFILE: no file descriptors are left, here or there (memory is)
 * -ENODEV: the GPU is not visible in this process, or no GPU handle
 * -EOPNOTSUPP: MRGUARD_SHARE_VMM=0; IPC memory of this very process
 * -ENOTCONN: IPC memory needs a context on the device: see MRG_GPU_CONTEXT
 * -ENOMEM, -EIO, -ECHILD
 */
MRG_API int mrg_share_import(struct mrg_share *share, const void *token, size_t length,
			     const struct mrg_import_opts *opts, struct mrg_import **import);
/** mrg_import_address() - where the range's first byte is mapped here */
MRG_API uint64_t mrg_import_address(const struct mrg_import *import);
/** mrg_import_length() - bytes of the range */
MRG_API uint64_t mrg_import_length(const struct mrg_import *import);
/** mrg_import_devices() - how many devices have access; 0 for host memory */
MRG_API unsigned int mrg_import_devices(const struct mrg_import *import);
/** mrg_import_release() - unmap once the last import of the generation goes;
 *  NULL is allowed.  GPU work and transfers on it must have ended. */
MRG_API void mrg_import_release(struct mrg_import *import);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_SHARE_H */
