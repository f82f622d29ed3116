/* SPDX-License-Identifier: MIT */
/* Inside the registry: records, their entries, and who makes those. */
#ifndef REGISTRY_REGISTRY_H
#define REGISTRY_REGISTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <mrguard/gpu.h>
#include <mrguard/registry.h>

#include "base/error.h"
#include "registry/index.h"

/* These are alternatives: what the memory is decides which of them it can be. */
#define GPU_SHARES                                                              \
	(MRG_PROTO_BIT(MRG_PROTO_CUDA_VMM) | MRG_PROTO_BIT(MRG_PROTO_HIP_VMM) | \
	 MRG_PROTO_BIT(MRG_PROTO_CUDA_IPC) | MRG_PROTO_BIT(MRG_PROTO_HIP_IPC))

/* A device, and what descriptors tell of it. */
struct registry_device {
	struct mrg_registry_device open;
	char name[64];
	uint64_t guid;
	uint16_t lid;
	uint8_t link_layer;
};

/*
 * What entries are made from.  A record with lazy entries keeps a copy, with
 * descriptors of its own.
 */
struct registry_request {
	uint64_t addr;
	uint64_t length;
	int access;
	bool has_dmabuf;
	struct mrg_dmabuf dmabuf;
	struct mrg_memfd *memfds;
	size_t memfd_count;
	struct mrg_reg_opts reg; /* size 0: defaults */
	/* One export for all devices: each costs BAR space.  See
	 * registry_request_end(). */
	bool exported;
	struct mrg_export export;
};

/*
 * Who makes entries.  The real ones are verbs and shares; tests put their own
 * in their place.  An entry is any non-NULL pointer.
 */
struct registry_ops {
	/* Facts of a device, at opening. */
	int (*device)(struct mrg_registry *registry, struct registry_device *device);
	/* Makes an entry of one of @protocols and says of which.  On failure
	 * @error is filled in, and @entry is NULL or what could not be undone. */
	int (*add)(struct mrg_registry *registry, struct registry_request *request,
		   uint32_t protocols, size_t device, enum mrg_protocol *made, void **entry,
		   struct mrg_error *error);
	/* Undoes it.  After a failure the entry is given again, later. */
	int (*remove)(struct mrg_registry *registry, enum mrg_protocol protocol, void *entry,
		      struct mrg_error *error);
	ssize_t (*keys)(const void *entry, uint64_t addr, uint64_t length, struct mrg_seg *segs,
			size_t cap);
	size_t (*token)(const void *entry, const void **bytes);
};

enum registry_buffer_state {
	BUFFER_MAKING, /* nobody finds it yet */
	BUFFER_LIVE,
	BUFFER_ENDING, /* its last registration is being taken back */
	BUFFER_LEFT, /* nobody finds it, and something could not be undone */
};

/* The part of a record that look-ups do not read; under the registry's lock. */
struct registry_buffer_locked {
	struct mrg_buffer *next; /* in the list of those making, or left */
	uint64_t registrations;
	uint64_t wanted_devices;
	uint32_t wanted; /* protocols, made or not yet */
	int access;
	enum registry_buffer_state state;
	bool changing; /* by one thread, without the lock */
	struct registry_request *lazy;
};

#define BUFFER_CLOSED (1u << 31)

/*
 * A record.  To hold it, its first cache line is enough.
 * @users: holders; BUFFER_CLOSED: no more are let in
 * @slots: entries: of verbs by device, then of the other protocols
 */
struct mrg_buffer {
	_Atomic uint32_t users;
	uint32_t reserved;
	uint64_t addr;
	uint64_t length;
	uint64_t generation;
	struct mrg_registry *registry;
	struct registry_buffer_locked *locked;
	_Atomic(void *) slots[];
};

/* A part of an entry that did not come about, and that did not go either. */
struct registry_leftover {
	struct registry_leftover *next;
	enum mrg_protocol protocol;
	void *entry;
};

struct mrg_registry {
	struct registry_index index; /* read without the lock */
	size_t device_count;
	size_t slot_count;
	const struct registry_ops *ops;
	uint64_t instance;
	uint64_t error_owner;
	pid_t pid;
	struct mrg_ctx *ctx;
	struct mrg_share *share;
	struct mrg_gpu *gpu;
	uint8_t boot[16];
	char host[64];

	/* Never held while an entry is made or undone. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t next_generation;
	struct mrg_buffer *making;
	struct mrg_buffer *left;
	struct registry_leftover *leftovers;
	struct mrg_registry_stats stats;

	struct registry_device devices[];
};

extern const struct registry_ops registry_ops_real;

/** registry_open_with() - mrg_registry_open() with other makers of entries */
int registry_open_with(struct mrg_registry **registry, const struct mrg_registry_opts *opts,
		       const struct registry_ops *ops);

static inline size_t registry_lookup_bytes(const struct mrg_registry *registry)
{
	return sizeof(struct mrg_buffer) + registry->slot_count * sizeof(void *);
}

static inline size_t registry_slot(const struct mrg_registry *registry, enum mrg_protocol protocol,
				   size_t device)
{
	return protocol == MRG_PROTO_VERBS ?
		       device :
		       registry->device_count + (size_t)protocol - MRG_PROTO_VERBS - 1;
}

static inline enum mrg_protocol registry_slot_protocol(const struct mrg_registry *registry,
						       size_t slot)
{
	return slot < registry->device_count ?
		       MRG_PROTO_VERBS :
		       (enum mrg_protocol)(slot - registry->device_count + MRG_PROTO_VERBS + 1);
}

static inline void *registry_buffer_entry(const struct mrg_buffer *buffer, size_t slot)
{
	return atomic_load_explicit(&buffer->slots[slot], memory_order_acquire);
}

/** registry_buffer_try_hold() - false: closed */
bool registry_buffer_try_hold(struct mrg_buffer *buffer);

/* registry_entries.c: making and undoing, by the thread that has set
 * @buffer->locked->changing; without the lock */

/** registry_make() - the entries of @protocols and @devices that the record
 *  lacks; on failure those made here are undone, last first.  A -errno with the
 *  failure kept. */
int registry_make(struct mrg_buffer *buffer, struct registry_request *request, uint32_t protocols,
		  uint64_t devices);
/** registry_undo() - all entries, last first; those that fail stay.  The first
 *  -errno, with the failure kept. */
int registry_undo(struct mrg_buffer *buffer);
/** registry_undo_leftovers() - parts of entries that did not come about.  The first
 *  -errno, with the failure kept. */
int registry_undo_leftovers(struct mrg_registry *registry);
/** registry_missing() - which of @protocols and @devices have no entry */
uint32_t registry_missing(const struct mrg_buffer *buffer, uint32_t protocols, uint64_t devices);
size_t registry_entry_count(const struct mrg_buffer *buffer);

/* registry_request.c */

int registry_request_keep(struct registry_request **kept, const struct registry_request *request);
void registry_request_end(struct mrg_registry *registry, struct registry_request *request);
void registry_request_drop(struct registry_request *kept);

/** registry_check() - -ECHILD in a child after fork(2), with the failure kept */
int registry_check(const struct mrg_registry *registry);

/* verbs.c: entries of verbs */

/* verbs.c */
int registry_verbs_device(struct mrg_registry *registry, struct registry_device *device);
int registry_verbs_add(struct mrg_registry *registry, struct registry_request *request,
		       size_t device, void **entry, struct mrg_error *error);
int registry_verbs_remove(struct mrg_registry *registry, void *entry, struct mrg_error *error);
ssize_t registry_verbs_keys(const void *entry, uint64_t addr, uint64_t length, struct mrg_seg *segs,
			    size_t cap);

#endif
