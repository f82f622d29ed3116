/* SPDX-License-Identifier: MIT */
/* Look-ups and holders: no lock, no wait. */
#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "registry/rcu.h"
#include "registry/registry.h"

_Static_assert(offsetof(struct mrg_buffer, slots) <= 48,
	       "to hold a record its first cache line is enough");

/* In the read section, or held: the record is there. */
bool registry_buffer_try_hold(struct mrg_buffer *buffer)
{
	uint32_t users = atomic_load_explicit(&buffer->users, memory_order_relaxed);

	while (!(users & BUFFER_CLOSED))
		if (atomic_compare_exchange_weak_explicit(&buffer->users, &users, users + 1,
							  memory_order_acquire,
							  memory_order_relaxed))
			return true;
	return false;
}

int mrg_buffer_hold(struct mrg_buffer *buffer)
{
	return registry_buffer_try_hold(buffer) ? 0 : -EBUSY;
}

/*
 * Once the last holder has gone, the one who waits for that may free the record
 * at once: the read section keeps it until the wake-up is sent.
 */
void mrg_buffer_put(struct mrg_buffer *buffer)
{
	if (!buffer)
		return;
	registry_rcu_enter();
	if (atomic_fetch_sub_explicit(&buffer->users, 1, memory_order_release) ==
	    (BUFFER_CLOSED | 1))
		syscall(SYS_futex, &buffer->users, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
	registry_rcu_leave();
}

void mrg_registry_enter(void)
{
	registry_rcu_enter();
}

void mrg_registry_leave(void)
{
	registry_rcu_leave();
}

int mrg_registry_peek(struct mrg_registry *registry, enum mrg_protocol protocol, size_t device,
		      uint64_t addr, uint64_t length, uint64_t *covered, struct mrg_buffer **buffer)
{
	struct registry_index_query query = { .first = addr, .last = addr + (length - 1) };
	size_t devices = protocol == MRG_PROTO_VERBS ? registry->device_count : 1;
	uint64_t last;

	if (!length || query.last < addr || device >= devices ||
	    (unsigned int)protocol - 1 >= MRG_PROTO_COUNT - 1)
		return -EINVAL;
	query.need = 1ull << registry_slot(registry, protocol, device);
	registry_index_holding(&registry->index, &query);
	if (!query.best.buffer && covered)
		registry_index_reaching(&registry->index, &query);
	if (!query.best.buffer)
		return query.other ? -ENOPROTOOPT : -ERANGE;
	last = query.best.last < query.last ? query.best.last : query.last;
	if (covered)
		*covered = last - addr + 1;
	*buffer = query.best.buffer;
	return 0;
}

/* Closed between being found and being held: it is looked for again, and passed
 * over then, so this ends. */
int mrg_registry_find(struct mrg_registry *registry, enum mrg_protocol protocol, size_t device,
		      uint64_t addr, uint64_t length, uint64_t *covered, struct mrg_buffer **out)
{
	struct mrg_buffer *buffer = NULL;
	uint64_t part;
	int ret;

	registry_rcu_enter();
	do
		ret = mrg_registry_peek(registry, protocol, device, addr, length,
					covered ? &part : NULL, &buffer);
	while (!ret && !registry_buffer_try_hold(buffer));
	registry_rcu_leave();
	if (ret)
		return ret;
	if (covered)
		*covered = part;
	*out = buffer;
	return 0;
}

ssize_t mrg_buffer_keys(const struct mrg_buffer *buffer, size_t device, uint64_t addr,
			uint64_t length, struct mrg_seg *segs, size_t cap)
{
	const void *entry;

	if (device >= buffer->registry->device_count)
		return -ENOPROTOOPT;
	entry = registry_buffer_entry(buffer, device);
	if (!entry)
		return -ENOPROTOOPT;
	return buffer->registry->ops->keys(entry, addr, length, segs, cap);
}

uint64_t mrg_buffer_addr(const struct mrg_buffer *buffer)
{
	return buffer->addr;
}

uint64_t mrg_buffer_length(const struct mrg_buffer *buffer)
{
	return buffer->length;
}

uint64_t mrg_buffer_generation(const struct mrg_buffer *buffer)
{
	return buffer->generation;
}

uint32_t mrg_buffer_protocols(const struct mrg_buffer *buffer)
{
	const struct mrg_registry *registry = buffer->registry;
	uint32_t bits = 0;

	for (size_t slot = 0; slot < registry->slot_count; slot++)
		if (registry_buffer_entry(buffer, slot))
			bits |= MRG_PROTO_BIT(registry_slot_protocol(registry, slot));
	return bits;
}

static bool is_generation(const struct mrg_buffer *buffer, const void *generation)
{
	return buffer->generation == *(const uint64_t *)generation;
}

int mrg_registry_verify(struct mrg_registry *registry, const struct mrg_descriptor *desc,
			struct mrg_buffer **out)
{
	struct mrg_buffer *buffer = NULL;
	int ret = -ESTALE;

	if (desc->instance != registry->instance || !desc->length)
		return -ESTALE;
	registry_rcu_enter();
	buffer = registry_index_exact(&registry->index, desc->addr, desc->addr + (desc->length - 1),
				      is_generation, &desc->generation);
	if (buffer && registry_buffer_try_hold(buffer))
		ret = 0;
	registry_rcu_leave();
	if (!ret && out)
		*out = buffer;
	else if (!ret)
		mrg_buffer_put(buffer);
	return ret;
}
