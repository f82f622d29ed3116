/* SPDX-License-Identifier: MIT */
/*
 * Buffers that are registered once and used again: registration costs from tens
 * of microseconds to milliseconds, and with fork protection cuts VMAs; taking a
 * buffer from a pool costs some tens of nanoseconds and cuts none.  See
 * mrg_pool(3).
 */
#ifndef MRGUARD_POOL_H
#define MRGUARD_POOL_H

#include <stdbool.h>
#include <sys/types.h>
#include <mrguard/common.h>
#include <mrguard/region.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mrg_pool;

/**
 * struct mrg_buf - a buffer of a pool, read-only
 * @addr:	first byte; aligned to the largest power of two that divides @size,
 *		up to 2 MiB
 * @size:	bytes, at least as many as asked for
 * @wire:	its address in work requests
 * @lkey, @rkey: its keys; one MR covers all of it
 * @mr:		the handle that it is a part of: for mrg_mr_describe(), mrg_mr_plan()
 *		and the others that only read.  The pool's; it lives at least until
 *		the buffer is given back
 */
struct mrg_buf {
	void *addr;
	size_t size;
	uint64_t wire;
	uint32_t lkey;
	uint32_t rkey;
	const struct mrg_mr *mr;
	uint64_t reserved[1]; /* 0 */
};

/**
 * struct mrg_pool_memory - memory that a source gives for slabs
 * @addr:	its virtual address, aligned as asked
 * @length:	bytes, as asked
 * @dmabuf_fd:	-1: ordinary memory; else it is registered as this DMA-BUF, which
 *		stays the source's
 * @dmabuf_offset: where @addr lies in it
 * @handle:	the source's own
 */
struct mrg_pool_memory {
	void *addr;
	size_t length;
	int dmabuf_fd;
	uint32_t reserved0; /* 0 */
	uint64_t dmabuf_offset;
	void *handle;
	uint64_t reserved[2]; /* 0 */
};

/**
 * struct mrg_pool_source - the caller's allocator (GPU memory, hugetlb)
 * @get: 0, or -errno; @memory's @length is set, the rest to be filled in
 * @put: take it back; it is not registered any more
 * @arg: handed to both
 *
 * Called from any thread that uses the pool, one at a time.
 */
struct mrg_pool_source {
	int (*get)(void *arg, size_t align, struct mrg_pool_memory *memory);
	void (*put)(void *arg, struct mrg_pool_memory *memory);
	void *arg;
	uint64_t reserved[2]; /* 0 */
};

/**
 * struct mrg_pool_opts - how a pool is made
 * @size:	sizeof(struct mrg_pool_opts)
 * @flags:	0
 * @access:	IBV_ACCESS_*; 0 = local write, remote read and write
 * @limit:	bytes that may be registered at any time; 0 = 1 GiB.  Rounded up to
 *		2 MiB.
 * @min_size:	smallest buffer, a power of two from 64; 0 = 4 KiB
 * @max_size:	largest that may be asked for; 0 = 64 MiB, or @limit if that is
 *		less
 * @thread_cache: bytes of each size class that a thread may keep to itself; 0 =
 *		1 MiB.  At least two buffers, at most 64.
 * @reserved:	0
 * @source:	NULL: the pool's own host memory, in transparent huge pages where
 *		the host has them
 */
struct mrg_pool_opts {
	size_t size;
	uint32_t flags;
	int access;
	uint64_t limit;
	uint64_t min_size;
	uint64_t max_size;
	uint64_t thread_cache;
	uint64_t reserved;
	const struct mrg_pool_source *source;
};

/**
 * mrg_pool_open() - make a pool
 * @pool: OUT, to be closed with mrg_pool_close()
 * @ctx: the context that registers; must outlive the pool
 * @pd: the caller's protection domain
 * @opts: NULL for defaults
 *
 * The pool's own memory is one range of address space, twice @limit, from which
 * pages are taken as they are needed: the number of VMAs does not grow with use.
 *
 * Return: 0; -EINVAL (malformed options); -ENOMEM (also where a limit on
 * address space is in the way); -EAGAIN (the process has no thread keys
 * left, PTHREAD_KEYS_MAX).
 */
MRG_API int mrg_pool_open(struct mrg_pool **pool, struct mrg_ctx *ctx, struct ibv_pd *pd,
			  const struct mrg_pool_opts *opts);

/**
 * mrg_pool_close() - deregister and free everything
 * @pool: NULL is allowed
 *
 * No other thread may be inside a call on the pool, and none that has used it
 * may be about to exit.
 *
 * Return: 0; -EBUSY (buffers are out: nothing was done); or the first -errno of
 * mrg_dereg(): what could be freed is, and the pool can be closed again.
 */
MRG_API int mrg_pool_close(struct mrg_pool *pool);

/**
 * mrg_pool_get() - take a registered buffer
 * @length: bytes wanted
 * @buf: OUT, to be given back with mrg_pool_put(); its bytes are whatever the
 *	last user left
 *
 * Mostly one look into the calling thread's own cache.  When that and the pool
 * are empty a slab of memory is registered; at the limit, first what other
 * threads keep in their caches is taken, then unused slabs of other sizes go.
 *
 * Return: 0; -EINVAL (@length is 0); -EMSGSIZE (above @max_size, or the device's
 * MRs are too small for such a buffer); -ENOBUFS (the limit is reached, and all
 * is in use); -ENOMEM; or what the source or mrg_reg() answered:
 * mrg_last_error() says why.  Any thread.
 */
MRG_API int mrg_pool_get(struct mrg_pool *pool, size_t length, const struct mrg_buf **buf);

/**
 * mrg_pool_put() - give a buffer back
 *
 * By any thread, not only the one that took it.  No transfer may use it any
 * more.
 *
 * Return: 0; -EALREADY (it was given back before: nothing was done).
 */
MRG_API int mrg_pool_put(const struct mrg_buf *buf);

/**
 * mrg_pool_trim() - deregister what is not in use
 * @keep: bytes that may stay registered
 *
 * Empties the threads' caches too.  A slab of which one buffer is out stays.
 *
 * Return: bytes that were deregistered; or the first -errno of mrg_dereg().
 * Any thread.
 */
MRG_API ssize_t mrg_pool_trim(struct mrg_pool *pool, uint64_t keep);

/**
 * struct mrg_pool_stats - a pool's figures, as of some moment of late
 * @limit:	as in struct mrg_pool_opts
 * @registered:	bytes registered
 * @slabs:	registrations made of them
 * @buffers:	buffers in these
 * @in_use:	of these, out
 * @cached:	of these, in threads' caches
 * @registrations: slabs registered since the pool was opened
 * @steals:	times that other threads' caches were emptied at the limit
 */
struct mrg_pool_stats {
	uint64_t limit;
	uint64_t registered;
	uint64_t slabs;
	uint64_t buffers;
	uint64_t in_use;
	uint64_t cached;
	uint64_t registrations;
	uint64_t steals;
	uint64_t reserved[4]; /* 0 */
};

/** mrg_pool_get_stats() - read them; any thread */
MRG_API void mrg_pool_get_stats(struct mrg_pool *pool, struct mrg_pool_stats *stats);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_POOL_H */
