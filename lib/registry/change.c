/* SPDX-License-Identifier: MIT */
/*
 * Registering, and taking it back.
 *
 * The lock is for the records' states; entries are made and undone without it.
 * A record that one thread works on is marked @changing, and others wait for
 * that, so what is done to one record is done in order, while different records
 * never wait for each other.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/opts.h"
#include "registry/rcu.h"
#include "registry/registry.h"

#define DEFAULT_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

/* A call of mrg_buffer_register(), checked. */
struct demand {
	struct registry_request request;
	uint32_t protocols;
	uint32_t lazy;
	uint64_t devices;
};

static uint64_t all_devices(const struct mrg_registry *registry)
{
	return registry->device_count == 64 ? UINT64_MAX : (1ull << registry->device_count) - 1;
}

static int bad_demand(const struct mrg_registry *registry, const char *cause, const char *remedy)
{
	return base_fail(registry->error_owner, -EINVAL, "check options", remedy, "%s", cause);
}

static int check_protocols(struct mrg_registry *registry, struct demand *demand,
			   const struct mrg_buffer_opts *opts)
{
	demand->protocols = opts->protocols;
	if (!opts->protocols && registry->device_count)
		demand->protocols = MRG_PROTO_BIT(MRG_PROTO_VERBS);
	demand->lazy = opts->lazy;
	demand->devices = opts->device_mask ? opts->device_mask : all_devices(registry);
	if (!demand->protocols)
		return bad_demand(registry,
				  "No protocol is asked for, and the registry has no device.",
				  "Name protocols, or open the registry with devices.");
	if (demand->protocols & ~MRG_PROTO_ALL || demand->lazy & ~demand->protocols)
		return base_fail(registry->error_owner, -EINVAL, "check options",
				 "Use bits of MRG_PROTO_ALL, and for lazy those of protocols.",
				 "Protocols %#x, lazy %#x: a bit is no protocol, or lazy only.",
				 demand->protocols, demand->lazy);
	if (demand->devices & ~all_devices(registry))
		return base_fail(registry->error_owner, -EINVAL, "check options",
				 "Use one bit for each device of the registry.",
				 "The device mask is %#llx, and the registry has %zu devices.",
				 (unsigned long long)demand->devices, registry->device_count);
	if (demand->protocols & MRG_PROTO_BIT(MRG_PROTO_VERBS) && !demand->devices)
		return base_fail(registry->error_owner, -EOPNOTSUPP, "check options",
				 "Open the registry with devices.",
				 "Verbs are asked for, and the registry has no device.");
	return 0;
}

static int check_demand(struct mrg_registry *registry, uint64_t addr, uint64_t length,
			const struct mrg_buffer_opts *opts, struct demand *demand)
{
	struct mrg_buffer_opts o;

	if (base_opts_copy(&o, sizeof(o), opts) || o.reserved)
		return bad_demand(registry, "The options are malformed.", BASE_OPTS_REMEDY);
	if (!length)
		return bad_demand(registry, "The length is 0.", "Register at least one byte.");
	if (addr > UINT64_MAX - (length - 1))
		return base_fail(registry->error_owner, -ERANGE, "check options",
				 "Give a range that ends at 2^64 or before.",
				 "The range of %#llx bytes at %#llx ends above 2^64.",
				 (unsigned long long)length, (unsigned long long)addr);
	memset(&demand->request, 0, sizeof(demand->request));
	demand->request.addr = addr;
	demand->request.length = length;
	demand->request.access = opts ? o.access : DEFAULT_ACCESS;
	demand->request.has_dmabuf = o.dmabuf != NULL;
	if (o.dmabuf)
		demand->request.dmabuf = *o.dmabuf;
	demand->request.memfds = (struct mrg_memfd *)o.memfds;
	demand->request.memfd_count = o.memfd_count;
	if (base_opts_copy(&demand->request.reg, sizeof(demand->request.reg), o.reg))
		return bad_demand(registry, "The options for mrg_reg() are malformed.",
				  BASE_OPTS_REMEDY);
	return check_protocols(registry, demand, &o);
}

/* ---- lists and states, under the lock ---- */

static void push(struct mrg_buffer **list, struct mrg_buffer *buffer)
{
	buffer->locked->next = *list;
	*list = buffer;
}

static void take_out(struct mrg_buffer **list, const struct mrg_buffer *buffer)
{
	while (*list != buffer)
		list = &(*list)->locked->next;
	*list = buffer->locked->next;
}

static void wait_for_change(struct mrg_registry *registry)
{
	pthread_cond_wait(&registry->changed, &registry->lock);
}

static void end_change(struct mrg_buffer *buffer)
{
	buffer->locked->changing = false;
	pthread_cond_broadcast(&buffer->registry->changed);
}

static uint64_t entries_of(const struct mrg_buffer *buffer)
{
	uint64_t have = 0;

	for (size_t slot = 0; slot < buffer->registry->slot_count; slot++)
		have |= (uint64_t)(registry_buffer_entry(buffer, slot) != NULL) << slot;
	return have;
}

static struct registry_index_range range_of(struct mrg_buffer *buffer, uint64_t have)
{
	return (struct registry_index_range){ buffer->addr, buffer->addr + (buffer->length - 1),
					      buffer, have };
}

/* What look-ups see of the record. */
static void tell(struct mrg_buffer *buffer, uint64_t have)
{
	const struct registry_index_range range = range_of(buffer, have);

	registry_index_set(&buffer->registry->index, &range);
}

static bool is_live(const struct mrg_buffer *buffer, const void *arg)
{
	(void)arg;
	return buffer->locked->state == BUFFER_LIVE;
}

static bool is_being_made(const struct mrg_registry *registry, uint64_t addr, uint64_t length)
{
	for (const struct mrg_buffer *at = registry->making; at; at = at->locked->next)
		if (at->addr == addr && at->length == length)
			return true;
	return false;
}

/* The record of this range, which nobody is changing; NULL: there is none. */
static struct mrg_buffer *find_record(struct mrg_registry *registry, uint64_t addr, uint64_t length)
{
	struct mrg_buffer *buffer;

	for (;;) {
		buffer = registry_index_exact(&registry->index, addr, addr + (length - 1), is_live,
					      NULL);
		if (buffer ? !buffer->locked->changing : !is_being_made(registry, addr, length))
			return buffer;
		wait_for_change(registry);
	}
}

/* Of the GPU shares only that remains which the memory turned out to be. */
static void note_wanted(struct mrg_buffer *buffer, uint32_t protocols, uint64_t devices)
{
	uint32_t present = mrg_buffer_protocols(buffer);

	buffer->locked->wanted |= protocols;
	if (present & GPU_SHARES)
		buffer->locked->wanted &= ~GPU_SHARES | present;
	if (protocols & MRG_PROTO_BIT(MRG_PROTO_VERBS))
		buffer->locked->wanted_devices |= devices;
}

/* ---- registering ---- */

static struct mrg_buffer *make_record(struct mrg_registry *registry, const struct demand *demand)
{
	size_t start = registry_lookup_bytes(registry);
	struct mrg_buffer *buffer = registry_arena_take(&registry->index.records);

	if (!buffer)
		return NULL;
	memset(buffer, 0, start + sizeof(struct registry_buffer_locked));
	buffer->addr = demand->request.addr;
	buffer->length = demand->request.length;
	buffer->registry = registry;
	buffer->locked = (struct registry_buffer_locked *)((char *)buffer + start);
	buffer->locked->access = demand->request.access;
	buffer->locked->changing = true;
	return buffer;
}

static int keep_lazy(struct mrg_buffer *buffer, const struct demand *demand)
{
	int ret;

	if (!demand->lazy || buffer->locked->lazy)
		return 0;
	ret = registry_request_keep(&buffer->locked->lazy, &demand->request);
	if (!ret)
		return 0;
	return base_fail(buffer->registry->error_owner, ret, "keep request",
			 ret == -ENOMEM ? "Free memory." : "Raise RLIMIT_NOFILE, or close files.",
			 "The file descriptors for lazy protocols could not be kept: %s.",
			 strerror(-ret));
}

static int fill_record(struct mrg_buffer *buffer, struct demand *demand)
{
	int ret = keep_lazy(buffer, demand);

	if (ret)
		return ret;
	return registry_make(buffer, &demand->request, demand->protocols & ~demand->lazy,
			     demand->devices);
}

static int show_record(struct mrg_buffer *buffer, const struct demand *demand)
{
	struct mrg_registry *registry = buffer->registry;
	const struct registry_index_range range = range_of(buffer, entries_of(buffer));
	int ret;

	buffer->generation = registry->next_generation++;
	ret = registry_index_insert(&registry->index, &range);
	if (ret)
		return base_fail(registry->error_owner, ret, "keep record", "Free memory.",
				 "There is no memory for the registry's index.");
	buffer->locked->state = BUFFER_LIVE;
	buffer->locked->registrations = 1;
	note_wanted(buffer, demand->protocols, demand->devices);
	registry->stats.buffers++;
	registry->stats.registrations++;
	registry->stats.entries += registry_entry_count(buffer);
	return 0;
}

static int register_new(struct mrg_registry *registry, struct demand *demand,
			struct mrg_buffer **out)
{
	struct mrg_buffer *buffer = make_record(registry, demand);
	int ret;

	if (!buffer)
		return base_fail(registry->error_owner, -ENOMEM, "keep record", "Free memory.",
				 "There is no memory for a buffer's record.");
	push(&registry->making, buffer);
	pthread_mutex_unlock(&registry->lock);
	ret = fill_record(buffer, demand);
	pthread_mutex_lock(&registry->lock);
	if (!ret) {
		ret = show_record(buffer, demand);
		if (ret)
			registry_undo(buffer);
	}
	take_out(&registry->making, buffer);
	end_change(buffer);
	if (!ret) {
		*out = buffer;
		return 0;
	}
	/* What a failed roll-back has left is tried again at closing. */
	if (registry_entry_count(buffer)) {
		buffer->locked->state = BUFFER_LEFT;
		push(&registry->left, buffer);
		registry->stats.leftover += registry_entry_count(buffer);
		return ret;
	}
	if (buffer->locked->lazy)
		registry_request_drop(buffer->locked->lazy);
	registry_arena_give(&registry->index.records, buffer);
	return ret;
}

static int other_access(const struct mrg_buffer *buffer, int access)
{
	return base_fail(
		buffer->registry->error_owner, -EEXIST, "check options",
		"Register it with the same access, or unregister it first.",
		"The %#llx bytes at %#llx are registered with access %#x already, not with %#x.",
		(unsigned long long)buffer->length, (unsigned long long)buffer->addr,
		(unsigned int)buffer->locked->access, (unsigned int)access);
}

/* Adds what the record lacks; it has a registration, and so stays. */
static int change_record(struct mrg_buffer *buffer, struct registry_request *request,
			 uint32_t protocols, uint64_t devices)
{
	struct mrg_registry *registry = buffer->registry;
	size_t before = registry_entry_count(buffer);
	int ret;

	if (!registry_missing(buffer, protocols, devices))
		return 0;
	buffer->locked->changing = true;
	pthread_mutex_unlock(&registry->lock);
	ret = registry_make(buffer, request, protocols, devices);
	pthread_mutex_lock(&registry->lock);
	registry->stats.entries += registry_entry_count(buffer) - before;
	tell(buffer, entries_of(buffer));
	end_change(buffer);
	return ret;
}

static int register_again(struct mrg_buffer *buffer, struct demand *demand, struct mrg_buffer **out)
{
	int ret;

	if (buffer->locked->access != demand->request.access)
		return other_access(buffer, demand->request.access);
	ret = keep_lazy(buffer, demand);
	if (!ret)
		ret = change_record(buffer, &demand->request, demand->protocols & ~demand->lazy,
				    demand->devices);
	if (ret)
		return ret;
	note_wanted(buffer, demand->protocols, demand->devices);
	buffer->locked->registrations++;
	buffer->registry->stats.registrations++;
	*out = buffer;
	return 0;
}

int mrg_buffer_register(struct mrg_registry *registry, uint64_t addr, uint64_t length,
			const struct mrg_buffer_opts *opts, struct mrg_buffer **out)
{
	struct mrg_buffer *buffer;
	struct demand demand;
	int ret = registry_check(registry);

	if (!ret)
		ret = check_demand(registry, addr, length, opts, &demand);
	if (ret)
		return ret;
	pthread_mutex_lock(&registry->lock);
	buffer = find_record(registry, addr, length);
	ret = buffer ? register_again(buffer, &demand, out) : register_new(registry, &demand, out);
	pthread_mutex_unlock(&registry->lock);
	return ret;
}

/* ---- protocols made later ---- */

static int lacks_protocol(const struct mrg_buffer *buffer, uint32_t protocols)
{
	uint32_t wanted = buffer->locked->wanted;

	if (wanted & protocols & GPU_SHARES)
		protocols &= ~GPU_SHARES;
	return (protocols & ~wanted) != 0;
}

static int require(struct mrg_buffer *buffer, uint32_t protocols)
{
	struct registry_buffer_locked *locked = buffer->locked;
	int ret;

	/* One who ends it may be waiting for this caller's hold. */
	while (locked->changing && locked->state != BUFFER_ENDING)
		wait_for_change(buffer->registry);
	if (locked->state != BUFFER_LIVE)
		return base_fail(buffer->registry->error_owner, -EBUSY, "check buffer",
				 "Register the buffer again.", "The buffer is being unregistered.");
	protocols = protocols ? protocols : locked->wanted;
	if (lacks_protocol(buffer, protocols))
		return base_fail(
			buffer->registry->error_owner, -ENOPROTOOPT, "check buffer",
			"Register the buffer for all of them.",
			"The buffer is registered for protocols %#x, and %#x are asked for.",
			locked->wanted, protocols);
	if (!locked->lazy)
		return 0;
	ret = change_record(buffer, locked->lazy, protocols, locked->wanted_devices);
	if (ret)
		return ret;
	note_wanted(buffer, 0, 0);
	if (registry_missing(buffer, locked->wanted, locked->wanted_devices))
		return 0;
	registry_request_drop(locked->lazy);
	locked->lazy = NULL;
	return 0;
}

int mrg_buffer_require(struct mrg_buffer *buffer, uint32_t protocols)
{
	int ret = registry_check(buffer->registry);

	if (ret)
		return ret;
	pthread_mutex_lock(&buffer->registry->lock);
	ret = require(buffer, protocols);
	pthread_mutex_unlock(&buffer->registry->lock);
	return ret;
}

/* ---- unregistering ---- */

/* Closed: nobody comes, those who are there go. */
static int wait_for_holders(struct mrg_buffer *buffer, uint32_t timeout_ms)
{
	int64_t end = base_now_ms() + timeout_ms;
	uint32_t users;

	while ((users = atomic_load(&buffer->users)) != BUFFER_CLOSED) {
		int64_t left = end - base_now_ms();
		struct timespec limit = { left / 1000, left % 1000 * 1000000 };

		if (timeout_ms != UINT32_MAX && left <= 0)
			return timeout_ms ? -ETIMEDOUT : -EBUSY;
		syscall(SYS_futex, &buffer->users, FUTEX_WAIT_PRIVATE, users,
			timeout_ms == UINT32_MAX ? NULL : &limit, NULL, 0);
	}
	return 0;
}

static int still_held(struct mrg_buffer *buffer, int code)
{
	uint32_t users = atomic_load(&buffer->users) & ~BUFFER_CLOSED;

	return base_fail(buffer->registry->error_owner, code, "wait for transfers",
			 "Let the transfers end, or cancel them, and unregister again.",
			 "The buffer of %#llx bytes at %#llx is still held %u times.",
			 (unsigned long long)buffer->length, (unsigned long long)buffer->addr,
			 users);
}

static void reopen(struct mrg_buffer *buffer)
{
	atomic_fetch_and(&buffer->users, ~BUFFER_CLOSED);
	tell(buffer, entries_of(buffer));
	buffer->locked->state = BUFFER_LIVE;
}

/*
 * Lets nobody in any more, and waits for those who are there.  Who only asks, and
 * does not want to wait, must not hide a buffer that is in use.
 */
static int close_record(struct mrg_buffer *buffer, uint32_t timeout_ms)
{
	struct mrg_registry *registry = buffer->registry;
	int ret = 0;

	if (!timeout_ms && atomic_load(&buffer->users))
		return still_held(buffer, -EBUSY);
	buffer->locked->state = BUFFER_ENDING;
	tell(buffer, INDEX_CLOSED);
	if (atomic_fetch_or(&buffer->users, BUFFER_CLOSED)) {
		pthread_mutex_unlock(&registry->lock);
		ret = wait_for_holders(buffer, timeout_ms);
		if (ret)
			still_held(buffer, ret);
		pthread_mutex_lock(&registry->lock);
	}
	if (ret)
		reopen(buffer);
	return ret;
}

/* From a live record to one that nobody finds and nobody holds. */
static int withdraw(struct mrg_buffer *buffer, uint32_t timeout_ms)
{
	struct mrg_registry *registry = buffer->registry;
	const struct registry_index_range range = range_of(buffer, INDEX_CLOSED);
	int ret = close_record(buffer, timeout_ms);

	if (ret)
		return ret;
	ret = registry_index_remove(&registry->index, &range);
	if (ret) {
		reopen(buffer);
		return base_fail(registry->error_owner, ret, "forget record",
				 "Free memory, and unregister again.",
				 "There is no memory for the registry's index.");
	}
	registry->stats.buffers--;
	registry->stats.registrations--;
	registry->stats.entries -= registry_entry_count(buffer);
	registry->stats.leftover += registry_entry_count(buffer);
	buffer->locked->state = BUFFER_LEFT;
	push(&registry->left, buffer);
	return 0;
}

/* What is left of a record that nobody finds any more. */
static int undo_left(struct mrg_buffer *buffer)
{
	struct mrg_registry *registry = buffer->registry;
	size_t before = registry_entry_count(buffer);
	int ret;

	pthread_mutex_unlock(&registry->lock);
	/* Someone may be peeking at it. */
	registry_rcu_wait();
	ret = registry_undo(buffer);
	pthread_mutex_lock(&registry->lock);
	registry->stats.leftover -= before - registry_entry_count(buffer);
	if (ret)
		return ret;
	take_out(&registry->left, buffer);
	if (buffer->locked->lazy)
		registry_request_drop(buffer->locked->lazy);
	registry_index_retire(&registry->index, &registry->index.records, buffer);
	return 0;
}

static int end_record(struct mrg_buffer *buffer, uint32_t timeout_ms)
{
	struct mrg_registry *registry = buffer->registry;
	int ret = 0;

	buffer->locked->changing = true;
	if (buffer->locked->state == BUFFER_LIVE)
		ret = withdraw(buffer, timeout_ms);
	if (!ret)
		ret = undo_left(buffer);
	if (ret)
		buffer->locked->changing = false;
	pthread_cond_broadcast(&registry->changed);
	return ret;
}

int mrg_buffer_unregister(struct mrg_buffer *buffer, uint32_t timeout_ms)
{
	struct mrg_registry *registry = buffer->registry;
	int ret = registry_check(registry);

	if (ret)
		return ret;
	pthread_mutex_lock(&registry->lock);
	while (buffer->locked->changing)
		wait_for_change(registry);
	if (buffer->locked->state == BUFFER_LIVE && buffer->locked->registrations > 1) {
		buffer->locked->registrations--;
		registry->stats.registrations--;
	} else {
		ret = end_record(buffer, timeout_ms);
	}
	pthread_mutex_unlock(&registry->lock);
	return ret;
}
