/* SPDX-License-Identifier: MIT */
/* Reading a descriptor that is decoded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <mrguard/descriptor.h>

#include "private/private.h"

static const char *const names[MRG_PROTO_COUNT] = {
	[MRG_PROTO_NONE] = "none",	   [MRG_PROTO_VERBS] = "verbs",
	[MRG_PROTO_CUDA_VMM] = "cuda-vmm", [MRG_PROTO_HIP_VMM] = "hip-vmm",
	[MRG_PROTO_CUDA_IPC] = "cuda-ipc", [MRG_PROTO_HIP_IPC] = "hip-ipc",
	[MRG_PROTO_HOST_SHM] = "host-shm",
};

const char *mrg_protocol_name(enum mrg_protocol protocol)
{
	return (unsigned int)protocol < MRG_PROTO_COUNT ? names[protocol] : names[0];
}

int mrg_protocol_parse(const char *name, enum mrg_protocol *protocol)
{
	for (int i = MRG_PROTO_NONE + 1; i < MRG_PROTO_COUNT; i++)
		if (!strcmp(name, names[i])) {
			*protocol = (enum mrg_protocol)i;
			return 0;
		}
	return -EINVAL;
}

void mrg_descriptor_release(struct mrg_descriptor *desc)
{
	for (size_t i = 0; i < desc->device_count; i++)
		free(desc->devices[i].pieces);
	free(desc->devices);
	for (size_t i = 0; i < desc->share_count; i++)
		free(desc->shares[i].bytes);
	free(desc->shares);
	free(desc->unknown);
	memset(desc, 0, sizeof(*desc));
}

/* The piece that holds byte @offset, which is in the buffer. */
static size_t piece_at(const struct mrg_desc_device *device, uint64_t offset)
{
	size_t low = 0, high = device->count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (device->pieces[middle].start <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

ssize_t mrg_descriptor_keys(const struct mrg_descriptor *desc, size_t device, uint64_t addr,
			    uint64_t length, struct mrg_seg *segs, size_t cap)
{
	const struct mrg_desc_piece *piece;
	uint64_t offset = addr - desc->addr, skip;
	size_t first, last;

	if (device >= desc->device_count)
		return -ENODEV;
	if (!length || addr < desc->addr || offset >= desc->length ||
	    length > desc->length - offset)
		return -ERANGE;
	first = piece_at(&desc->devices[device], offset);
	last = piece_at(&desc->devices[device], offset + length - 1);
	if (last - first + 1 > cap)
		return (ssize_t)(last - first + 1);
	piece = &desc->devices[device].pieces[first];
	for (skip = offset - piece->start; length; piece++, skip = 0) {
		uint64_t part = piece->length - skip;

		part = part < length ? part : length;
		*segs++ = (struct mrg_seg){ .wire = piece->wire + skip,
					    .length = part,
					    .rkey = piece->rkey };
		length -= part;
	}
	return (ssize_t)(last - first + 1);
}

const struct mrg_desc_share *mrg_descriptor_share(const struct mrg_descriptor *desc,
						  enum mrg_protocol protocol)
{
	for (size_t i = 0; i < desc->share_count; i++)
		if (desc->shares[i].protocol == protocol)
			return &desc->shares[i];
	return NULL;
}

uint32_t mrg_descriptor_protocols(const struct mrg_descriptor *desc)
{
	uint32_t bits = desc->device_count ? MRG_PROTO_BIT(MRG_PROTO_VERBS) : 0;

	for (size_t i = 0; i < desc->share_count; i++)
		bits |= MRG_PROTO_BIT(desc->shares[i].protocol);
	return bits;
}

int mrg_boot_id(uint8_t boot[16])
{
	static const uint8_t unknown[16];

	mrg_private_boot_id(boot);
	return memcmp(boot, unknown, sizeof(unknown)) ? 0 : -ENOENT;
}
