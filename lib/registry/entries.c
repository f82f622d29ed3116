/* SPDX-License-Identifier: MIT */
/* Making and undoing a record's entries: all or nothing, last first. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "registry/registry.h"

#define MAX_SLOTS (MRG_DESC_MAX_DEVICES + MRG_PROTO_COUNT)

/* The entries that one call has made, in order.  Look-ups see them only when all are
 * made: an entry that was seen could not be taken back. */
struct progress {
	struct mrg_buffer *buffer;
	struct registry_request *request;
	size_t slots[MAX_SLOTS];
	void *entries[MAX_SLOTS];
	size_t count;
	struct mrg_error error;
};

static void show_entry(struct mrg_buffer *buffer, size_t slot, void *entry)
{
	atomic_store_explicit(&buffer->slots[slot], entry, memory_order_release);
}

/* The entry covers only a part of the range, so no record may have it. */
static void keep_leftover(struct mrg_registry *registry, struct registry_leftover *leftover)
{
	pthread_mutex_lock(&registry->lock);
	leftover->next = registry->leftovers;
	registry->leftovers = leftover;
	registry->stats.leftover++;
	pthread_mutex_unlock(&registry->lock);
}

/* Memory for a leftover is allocated first, so that none can get lost. */
static int make_entry(struct progress *progress, uint32_t protocols, size_t device)
{
	struct mrg_registry *registry = progress->buffer->registry;
	struct registry_leftover *made = calloc(1, sizeof(*made));
	int ret;

	if (!made)
		return base_error_set(&progress->error, -ENOMEM, "register", "Free memory.",
				      "There is no memory for an entry.");
	ret = registry->ops->add(registry, progress->request, protocols, device, &made->protocol,
				 &made->entry, &progress->error);
	if (ret && made->entry) {
		keep_leftover(registry, made);
		return ret;
	}
	if (!ret) {
		progress->entries[progress->count] = made->entry;
		progress->slots[progress->count++] =
			registry_slot(registry, made->protocol, device);
	}
	free(made);
	return ret;
}

static int make_verbs(struct progress *progress, uint64_t devices)
{
	int ret = 0;

	for (size_t i = 0; i < progress->buffer->registry->device_count && !ret; i++)
		if (devices >> i & 1 && !registry_buffer_entry(progress->buffer, i))
			ret = make_entry(progress, MRG_PROTO_BIT(MRG_PROTO_VERBS), i);
	return ret;
}

static int undo_entry(struct mrg_buffer *buffer, size_t slot, void *entry, struct mrg_error *error)
{
	struct mrg_registry *registry = buffer->registry;

	return registry->ops->remove(registry, registry_slot_protocol(registry, slot), entry,
				     error);
}

/* One that cannot be undone is whole, and goes with the record. */
static void roll_back(struct progress *progress)
{
	struct mrg_error ignored;

	while (progress->count) {
		size_t slot = progress->slots[--progress->count];
		void *entry = progress->entries[progress->count];

		if (undo_entry(progress->buffer, slot, entry, &ignored))
			show_entry(progress->buffer, slot, entry);
	}
}

int registry_make(struct mrg_buffer *buffer, struct registry_request *request, uint32_t protocols,
		  uint64_t devices)
{
	struct progress progress = { .buffer = buffer, .request = request };
	int ret = 0;

	protocols = registry_missing(buffer, protocols, devices);
	if (protocols & MRG_PROTO_BIT(MRG_PROTO_VERBS))
		ret = make_verbs(&progress, devices);
	if (!ret && protocols & GPU_SHARES)
		ret = make_entry(&progress, protocols & GPU_SHARES, 0);
	if (!ret && protocols & MRG_PROTO_BIT(MRG_PROTO_HOST_SHM))
		ret = make_entry(&progress, MRG_PROTO_BIT(MRG_PROTO_HOST_SHM), 0);
	registry_request_end(buffer->registry, request);
	if (ret) {
		roll_back(&progress);
		return mrg_private_error_keep(buffer->registry->error_owner, &progress.error);
	}
	for (size_t i = 0; i < progress.count; i++)
		show_entry(buffer, progress.slots[i], progress.entries[i]);
	return 0;
}

int registry_undo(struct mrg_buffer *buffer)
{
	struct mrg_error error, first_error;
	int ret, first = 0;

	for (size_t slot = buffer->registry->slot_count; slot-- > 0;) {
		void *entry = registry_buffer_entry(buffer, slot);

		ret = entry ? undo_entry(buffer, slot, entry, &error) : 0;
		if (!ret)
			show_entry(buffer, slot, NULL);
		if (ret && !first) {
			first = ret;
			first_error = error;
		}
	}
	return first ? mrg_private_error_keep(buffer->registry->error_owner, &first_error) : 0;
}

int registry_undo_leftovers(struct mrg_registry *registry)
{
	struct registry_leftover **at = &registry->leftovers, *leftover;
	struct mrg_error error, first_error;
	int ret, first = 0;

	while ((leftover = *at)) {
		ret = registry->ops->remove(registry, leftover->protocol, leftover->entry, &error);
		if (!ret) {
			*at = leftover->next;
			free(leftover);
			registry->stats.leftover--;
			continue;
		}
		at = &leftover->next;
		if (!first)
			first_error = error;
		first = first ? first : ret;
	}
	return first ? mrg_private_error_keep(registry->error_owner, &first_error) : 0;
}

uint32_t registry_missing(const struct mrg_buffer *buffer, uint32_t protocols, uint64_t devices)
{
	uint32_t present = mrg_buffer_protocols(buffer) & protocols;
	uint32_t missing = protocols & ~present;

	if (present & GPU_SHARES)
		missing &= ~GPU_SHARES;
	missing &= ~MRG_PROTO_BIT(MRG_PROTO_VERBS);
	if (!(protocols & MRG_PROTO_BIT(MRG_PROTO_VERBS)))
		return missing;
	for (size_t i = 0; i < buffer->registry->device_count; i++)
		if (devices >> i & 1 && !registry_buffer_entry(buffer, i))
			return missing | MRG_PROTO_BIT(MRG_PROTO_VERBS);
	return missing;
}

size_t registry_entry_count(const struct mrg_buffer *buffer)
{
	size_t count = 0;

	for (size_t slot = 0; slot < buffer->registry->slot_count; slot++)
		count += registry_buffer_entry(buffer, slot) != NULL;
	return count;
}
