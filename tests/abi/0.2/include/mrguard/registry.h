/* SPDX-License-Identifier: MIT */
/*
 * Buffers, each under several protocols at once.  See mrg_registry(3).
 *
 * A buffer is one record, with an entry for each protocol (for verbs one each
 * device), keyed by protocol, address and length: an entry without keys cannot
 * be taken for one with keys.  Buffers may overlap.  The same range again is
 * the same buffer, counted.
 *
 * Locking: look-ups (mrg_registry_find(), mrg_buffer_keys() and what else only
 * reads) take no lock and never wait for a change.  A found buffer is held, and
 * unregistering waits for its holders, or refuses.
 */
#ifndef MRGUARD_REGISTRY_H
#define MRGUARD_REGISTRY_H

#include <stdbool.h>
#include <sys/types.h>
#include <mrguard/common.h>
#include <mrguard/descriptor.h>
#include <mrguard/region.h>
#include <mrguard/share.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mrg_registry;
struct mrg_buffer;

/**
 * struct mrg_registry_device - an RDMA device to register on
 * @pd:		the caller's, alive until mrg_registry_close()
 * @port:	1...; 0 = 1
 * @gid_type:	of @gid
 * @gid:	the GID to publish, see mrg_gid_choose(); zeros = none
 * @reserved:	0
 */
struct mrg_registry_device {
	struct ibv_pd *pd;
	uint32_t port;
	enum mrg_gid_type gid_type;
	uint8_t gid[16];
	uint64_t reserved[2];
};

#define MRG_REGISTRY_MAX_DEVICES 56

/**
 * struct mrg_registry_opts - how to open
 * @size:	sizeof(struct mrg_registry_opts)
 * @ctx:	for verbs entries; NULL only without devices
 * @share:	for all other entries; NULL: there are none
 * @gpu:	exports GPU memory for verbs; NULL: verbs entries are made by
 *		mrg_reg(), or from the DMA-BUF that a registration gives
 * @devices, @device_count: at most MRG_REGISTRY_MAX_DEVICES; copied
 * All of them stay the caller's, and alive until mrg_registry_close().
 */
struct mrg_registry_opts {
	size_t size;
	struct mrg_ctx *ctx;
	struct mrg_share *share;
	struct mrg_gpu *gpu;
	const struct mrg_registry_device *devices;
	size_t device_count;
};

/**
 * mrg_registry_open() - open
 * @registry: OUT, to be closed with mrg_registry_close()
 *
 * Return: 0; -EINVAL (unknown non-zero tail of @opts, non-zero reserved words, devices
 * without @ctx, too many devices); -errno of ibv_query_port(); -ENOMEM.  Any number of threads
 * may use it.  In a child after fork(2) what changes it fails with -ECHILD.
 */
MRG_API int mrg_registry_open(struct mrg_registry **registry, const struct mrg_registry_opts *opts);

/**
 * mrg_registry_close() - close; NULL is allowed
 *
 * Unregisters what is left, however often it was registered.  Nobody may hold
 * a buffer.
 *
 * Return: 0; -EBUSY (a buffer is held, nothing was done); the first -errno of a
 * deregistration: the registry is then still there, with what could not be
 * undone, and may be closed again.
 */
MRG_API int mrg_registry_close(struct mrg_registry *registry);

/** mrg_registry_last_error() - why the calling thread's last failed call
 *  failed.  Return: 0; -ENODATA. */
MRG_API int mrg_registry_last_error(const struct mrg_registry *registry, struct mrg_error *error);

/**
 * struct mrg_buffer_opts - how to register
 * @size:	sizeof(struct mrg_buffer_opts)
 * @protocols:	MRG_PROTO_BIT() of each; 0 = verbs, where there are devices
 * @lazy:	those of @protocols that are made when mrg_buffer_require() first
 *		asks: a GPU's memory that only this machine uses is never
 *		exported for RDMA then
 * @access:	IBV_ACCESS_*
 * @reserved:	0
 * @device_mask: bit n = device n of the registry; 0 = all
 * @dmabuf:	register this for verbs; NULL: see struct mrg_registry_opts
 * @memfds, @memfd_count: for MRG_PROTO_HOST_SHM: together exactly the range
 * @reg:	see mrg_reg(); NULL for defaults
 */
struct mrg_buffer_opts {
	size_t size;
	uint32_t protocols;
	uint32_t lazy;
	int32_t access;
	uint32_t reserved;
	uint64_t device_mask;
	const struct mrg_dmabuf *dmabuf;
	const struct mrg_memfd *memfds;
	size_t memfd_count;
	const struct mrg_reg_opts *reg;
};

/**
 * mrg_buffer_register() - register a range
 * @registry: the registry
 * @addr, @length: the range
 * @opts: NULL for defaults: verbs on all devices, local write and remote read
 *	and write
 * @buffer: OUT; to be given to mrg_buffer_unregister() once for each
 *	registration.  Not held: see mrg_buffer_hold().
 *
 * All or nothing: if one protocol fails, those made before it in this call are
 * undone, last first, and the call fails with that protocol's error.  A range
 * that is registered already is counted, and gets the protocols that it lacks.
 *
 * Return: 0, or
 * -EINVAL: options, length 0, or no protocol at all
 * -ERANGE: the range overflows
 * -EEXIST: registered already with other @access
 * -EOPNOTSUPP: a protocol that the registry has no means for, or that does not
 *	fit the memory (a share of another kind)
 * -ENOMEM, -ECHILD, and what mrg_reg(), mrg_reg_dmabuf(), mrg_gpu_export(),
 *	mrg_share_publish() and mrg_share_publish_memfds() return
 */
MRG_API int mrg_buffer_register(struct mrg_registry *registry, uint64_t addr, uint64_t length,
				const struct mrg_buffer_opts *opts, struct mrg_buffer **buffer);

/**
 * mrg_buffer_unregister() - take one registration back
 * @buffer: of mrg_buffer_register(); the last call ends it
 * @timeout_ms: how long the last call waits for holders, that is for transfers;
 *	0: it refuses at once; UINT32_MAX: no limit
 *
 * While it waits, look-ups do not find the buffer any more.
 *
 * Return: 0, or
 * -EBUSY: held, and @timeout_ms is 0; -ETIMEDOUT: still held: the buffer is
 *	registered as before, this call's registration too
 * or the first -errno of a protocol that could not be undone.  The others are,
 *	nobody finds the buffer any more, and another call with the same handle
 *	tries what is left, and nothing else.
 * -ECHILD
 */
MRG_API int mrg_buffer_unregister(struct mrg_buffer *buffer, uint32_t timeout_ms);

/**
 * mrg_buffer_require() - make sure of protocols
 * @buffer: registered or held
 * @protocols: of those that it was registered with; lazy ones are made now
 *
 * Return: 0; -ENOPROTOOPT (one that it was not registered with); -EBUSY (being
 * unregistered); or as mrg_buffer_register(), with those undone that this call
 * made.
 */
MRG_API int mrg_buffer_require(struct mrg_buffer *buffer, uint32_t protocols);

/**
 * mrg_registry_find() - the buffer that holds a range, for one protocol
 * @registry: the registry
 * @protocol: whose entry is wanted
 * @device: for MRG_PROTO_VERBS the device's number in the registry, else 0
 * @addr, @length: the range
 * @covered: NULL: a buffer must hold the whole range.  Otherwise OUT how many
 *	of its bytes, from the first on, @buffer holds: the most that any holds.
 * @buffer: OUT, held: to be given to mrg_buffer_put()
 *
 * Only buffers that have an entry of @protocol, on that device, are looked at.
 * Of several that hold the range, the shortest is taken, and of those the one
 * that starts last.  Costs O(log buffers), apart from overlaps: among a million,
 * about one miss of the processor's cache, and another one for holding.
 *
 * Return: 0; -ERANGE (no buffer); -ENOPROTOOPT (there are buffers, none with
 * @protocol on @device); -EINVAL (@length 0, overflow, no such protocol or
 * device).
 */
MRG_API int mrg_registry_find(struct mrg_registry *registry, enum mrg_protocol protocol,
			      size_t device, uint64_t addr, uint64_t length, uint64_t *covered,
			      struct mrg_buffer **buffer);

/**
 * mrg_registry_enter() - begin to look at buffers without holding them
 *
 * What mrg_registry_peek() finds is there until the same thread's
 * mrg_registry_leave().  In between the thread must not register, unregister or
 * close, and should be brief: who unregisters waits for it.  May be nested.
 */
MRG_API void mrg_registry_enter(void);
/** mrg_registry_leave() - end it */
MRG_API void mrg_registry_leave(void);
/** mrg_registry_peek() - as mrg_registry_find(), without holding @buffer;
 *  between mrg_registry_enter() and mrg_registry_leave() */
MRG_API int mrg_registry_peek(struct mrg_registry *registry, enum mrg_protocol protocol,
			      size_t device, uint64_t addr, uint64_t length, uint64_t *covered,
			      struct mrg_buffer **buffer);

/** mrg_buffer_hold() - hold a buffer once more, as each transfer does until it
 *  is complete.  @buffer is registered, held or peeked at.  0; -EBUSY: it
 *  is being unregistered. */
MRG_API int mrg_buffer_hold(struct mrg_buffer *buffer);
/** mrg_buffer_put() - let go of it; NULL is allowed */
MRG_API void mrg_buffer_put(struct mrg_buffer *buffer);

/**
 * mrg_buffer_keys() - local segments for a range of a held buffer
 * @buffer: held
 * @device: the device's number in the registry
 * @addr, @length, @segs, @cap: as mrg_keys()
 *
 * Return: as mrg_keys(), and -ENOPROTOOPT: not registered for verbs there.
 */
MRG_API ssize_t mrg_buffer_keys(const struct mrg_buffer *buffer, size_t device, uint64_t addr,
				uint64_t length, struct mrg_seg *segs, size_t cap);

/** mrg_buffer_addr() - its first byte */
MRG_API uint64_t mrg_buffer_addr(const struct mrg_buffer *buffer);
/** mrg_buffer_length() - bytes */
MRG_API uint64_t mrg_buffer_length(const struct mrg_buffer *buffer);
/** mrg_buffer_generation() - see struct mrg_descriptor */
MRG_API uint64_t mrg_buffer_generation(const struct mrg_buffer *buffer);
/** mrg_buffer_protocols() - MRG_PROTO_BIT() of each entry that it has now */
MRG_API uint32_t mrg_buffer_protocols(const struct mrg_buffer *buffer);

/**
 * mrg_buffer_describe() - the buffer's descriptor
 * @buffer: registered or held
 * @protocols: what to tell of; 0 = all that it was registered with.  Lazy ones
 *	are made.
 * @desc: OUT, to be released with mrg_descriptor_release()
 *
 * Return: 0, or as mrg_buffer_require().
 */
MRG_API int mrg_buffer_describe(struct mrg_buffer *buffer, uint32_t protocols,
				struct mrg_descriptor *desc);

/**
 * mrg_registry_verify() - is a descriptor still the present one
 * @registry: the owner's
 * @desc: made by mrg_buffer_describe(), come back from a peer
 * @buffer: OUT, held; NULL is allowed
 *
 * An owner asks before it lets a peer use a descriptor.
 *
 * Return: 0; -ESTALE (of another registry, another generation, or no longer
 * registered).
 */
MRG_API int mrg_registry_verify(struct mrg_registry *registry, const struct mrg_descriptor *desc,
				struct mrg_buffer **buffer);

/**
 * struct mrg_registry_stats - what is registered
 * @buffers:	that look-ups can find
 * @registrations: of them, each counted
 * @entries:	of all protocols
 * @leftover:	entries that could not be undone and will be tried again
 * @instance:	see struct mrg_descriptor
 * @reserved:	0
 */
struct mrg_registry_stats {
	uint64_t buffers;
	uint64_t registrations;
	uint64_t entries;
	uint64_t leftover;
	uint64_t instance;
	uint64_t reserved[3];
};
/** mrg_registry_stats() - counts at one moment.  Takes the lock. */
MRG_API void mrg_registry_stats(struct mrg_registry *registry, struct mrg_registry_stats *stats);

/** mrg_registry_device_count() - devices it was opened with */
MRG_API size_t mrg_registry_device_count(const struct mrg_registry *registry);
/** mrg_registry_device() - device number @index; NULL past the last */
MRG_API const struct mrg_registry_device *mrg_registry_device(const struct mrg_registry *registry,
							      size_t index);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_REGISTRY_H */
