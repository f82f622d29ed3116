/* SPDX-License-Identifier: MIT */
/* A record's descriptor. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "registry/registry.h"

static int describe_pieces(const struct mrg_buffer *buffer, const void *entry,
			   struct mrg_desc_device *out)
{
	const struct registry_ops *ops = buffer->registry->ops;
	ssize_t count = ops->keys(entry, buffer->addr, buffer->length, NULL, 0);
	struct mrg_seg *segs;
	uint64_t start = 0;

	if (count < 0)
		return (int)count;
	if (count > (ssize_t)MRG_DESC_MAX_PIECES)
		return -EFBIG;
	segs = calloc((size_t)count, sizeof(*segs));
	out->pieces = calloc((size_t)count, sizeof(*out->pieces));
	if (!segs || !out->pieces) {
		free(segs);
		return -ENOMEM;
	}
	ops->keys(entry, buffer->addr, buffer->length, segs, (size_t)count);
	for (ssize_t i = 0; i < count; start += segs[i++].length)
		out->pieces[i] = (struct mrg_desc_piece){ .start = start,
							  .length = segs[i].length,
							  .wire = segs[i].wire,
							  .rkey = segs[i].rkey };
	out->count = (size_t)count;
	free(segs);
	return 0;
}

static int describe_device(const struct mrg_buffer *buffer, size_t index, const void *entry,
			   struct mrg_desc_device *out)
{
	const struct registry_device *device = &buffer->registry->devices[index];

	memcpy(out->name, device->name, sizeof(out->name));
	memcpy(out->gid, device->open.gid, sizeof(out->gid));
	out->gid_type = device->open.gid_type;
	out->guid = device->guid;
	out->lid = device->lid;
	out->link_layer = device->link_layer;
	out->port = (uint8_t)device->open.port;
	out->access = (uint32_t)buffer->locked->access;
	return describe_pieces(buffer, entry, out);
}

static int describe_devices(const struct mrg_buffer *buffer, struct mrg_descriptor *desc)
{
	int ret = 0;

	desc->devices = calloc(buffer->registry->device_count, sizeof(*desc->devices));
	if (!desc->devices)
		return -ENOMEM;
	for (size_t i = 0; i < buffer->registry->device_count && !ret; i++) {
		const void *entry = registry_buffer_entry(buffer, i);

		if (entry)
			ret = describe_device(buffer, i, entry,
					      &desc->devices[desc->device_count++]);
	}
	return ret;
}

static int describe_share(const struct mrg_buffer *buffer, const void *entry,
			  enum mrg_protocol protocol, struct mrg_desc_share *share)
{
	const void *bytes;
	size_t length = buffer->registry->ops->token(entry, &bytes);

	share->bytes = malloc(length);
	if (!share->bytes)
		return -ENOMEM;
	memcpy(share->bytes, bytes, length);
	share->length = length;
	share->protocol = protocol;
	return 0;
}

static int describe_shares(const struct mrg_buffer *buffer, uint32_t protocols,
			   struct mrg_descriptor *desc)
{
	int ret = 0;

	desc->shares = calloc(MRG_PROTO_COUNT, sizeof(*desc->shares));
	if (!desc->shares)
		return -ENOMEM;
	for (int i = MRG_PROTO_VERBS + 1; i < MRG_PROTO_COUNT && !ret; i++) {
		enum mrg_protocol protocol = (enum mrg_protocol)i;
		const void *entry =
			registry_buffer_entry(buffer, registry_slot(buffer->registry, protocol, 0));

		if (entry && protocols & MRG_PROTO_BIT(protocol))
			ret = describe_share(buffer, entry, protocol,
					     &desc->shares[desc->share_count++]);
	}
	return ret;
}

static int describe_all(const struct mrg_buffer *buffer, uint32_t protocols,
			struct mrg_descriptor *desc)
{
	const struct mrg_registry *registry = buffer->registry;
	int ret = 0;

	desc->addr = buffer->addr;
	desc->length = buffer->length;
	desc->instance = registry->instance;
	desc->generation = buffer->generation;
	memcpy(desc->boot, registry->boot, sizeof(desc->boot));
	memcpy(desc->host, registry->host, sizeof(desc->host));
	if (protocols & MRG_PROTO_BIT(MRG_PROTO_VERBS) && registry->device_count)
		ret = describe_devices(buffer, desc);
	if (!ret && protocols & MRG_PROTO_SHARES)
		ret = describe_shares(buffer, protocols, desc);
	return ret;
}

int mrg_buffer_describe(struct mrg_buffer *buffer, uint32_t protocols, struct mrg_descriptor *desc)
{
	struct mrg_descriptor made = { 0 };
	int ret = mrg_buffer_require(buffer, protocols);

	if (ret)
		return ret;
	ret = describe_all(buffer, protocols ? protocols : MRG_PROTO_ALL, &made);
	if (ret) {
		mrg_descriptor_release(&made);
		return base_fail(buffer->registry->error_owner, ret, "describe buffer",
				 ret == -ENOMEM ? "Free memory." : "Describe smaller buffers.",
				 "The descriptor could not be made: %s.", strerror(-ret));
	}
	*desc = made;
	return 0;
}
