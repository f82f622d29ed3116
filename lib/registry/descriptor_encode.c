/* SPDX-License-Identifier: MIT */
/* A descriptor to bytes. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <mrguard/descriptor.h>

#include "base/le_writer.h"
#include "registry/descriptor_wire.h"

/* What follows the NUL in a field of the caller's is not the reader's. */
static void put_name(uint8_t **at, const char name[DESC_NAME])
{
	char field[DESC_NAME] = "";

	memcpy(field, name, strnlen(name, sizeof(field)));
	base_put_bytes(at, field, sizeof(field));
}

static void put_part(uint8_t **at, uint32_t type, size_t length)
{
	base_put_u32(at, type);
	base_put_u32(at, (uint32_t)length);
}

static void put_buffer(uint8_t **at, const struct mrg_descriptor *desc)
{
	put_part(at, DESC_BUFFER | DESC_MUST, DESC_BUFFER_BYTES);
	base_put_u64(at, desc->addr);
	base_put_u64(at, desc->length);
	base_put_bytes(at, desc->boot, sizeof(desc->boot));
	put_name(at, desc->host);
	base_put_u64(at, desc->instance);
	base_put_u64(at, desc->generation);
}

static void put_device(uint8_t **at, const struct mrg_desc_device *device)
{
	const uint8_t kinds[] = { (uint8_t)device->gid_type, device->link_layer, device->port, 0 };

	put_part(at, DESC_DEVICE, DESC_DEVICE_BYTES + device->count * DESC_PIECE_BYTES);
	put_name(at, device->name);
	base_put_bytes(at, &device->guid, sizeof(device->guid));
	base_put_bytes(at, device->gid, sizeof(device->gid));
	base_put_bytes(at, kinds, sizeof(kinds));
	base_put_u16(at, device->lid);
	base_put_u16(at, 0);
	base_put_u32(at, device->access);
	for (size_t i = 0; i < device->count; i++) {
		base_put_u64(at, device->pieces[i].wire);
		base_put_u64(at, device->pieces[i].length);
		base_put_u32(at, device->pieces[i].rkey);
	}
}

static void put_share(uint8_t **at, const struct mrg_desc_share *share)
{
	put_part(at, DESC_SHARE, DESC_SHARE_BYTES + share->length);
	base_put_u32(at, share->protocol);
	base_put_bytes(at, share->bytes, share->length);
}

/* 0: above the limits, which are such that no sum here overflows. */
static size_t total_bytes(const struct mrg_descriptor *desc)
{
	size_t bytes = DESC_HEAD + DESC_PART + DESC_BUFFER_BYTES;

	if (desc->device_count > MRG_DESC_MAX_DEVICES || desc->share_count > MRG_DESC_MAX_SHARES ||
	    desc->unknown_length > MRG_DESC_MAX_BYTES)
		return 0;
	for (size_t i = 0; i < desc->device_count; i++) {
		if (desc->devices[i].count > MRG_DESC_MAX_PIECES)
			return 0;
		bytes += DESC_PART + DESC_DEVICE_BYTES + desc->devices[i].count * DESC_PIECE_BYTES;
	}
	for (size_t i = 0; i < desc->share_count; i++) {
		if (desc->shares[i].length > MRG_DESC_MAX_SHARE)
			return 0;
		bytes += DESC_PART + DESC_SHARE_BYTES + desc->shares[i].length;
	}
	bytes += desc->unknown_length;
	return bytes > MRG_DESC_MAX_BYTES ? 0 : bytes;
}

static void write_all(uint8_t *out, const struct mrg_descriptor *desc, size_t bytes)
{
	uint8_t *to = out, *check = out + DESC_CHECK_AT;

	base_put_bytes(&to, DESC_MAGIC, sizeof(DESC_MAGIC) - 1);
	base_put_u16(&to, DESC_VERSION);
	base_put_u16(&to, 0);
	base_put_u32(&to, (uint32_t)bytes);
	base_put_u32(&to, 0);
	put_buffer(&to, desc);
	for (size_t i = 0; i < desc->device_count; i++)
		put_device(&to, &desc->devices[i]);
	for (size_t i = 0; i < desc->share_count; i++)
		put_share(&to, &desc->shares[i]);
	base_put_bytes(&to, desc->unknown, desc->unknown_length);
	base_put_u32(&check, (uint32_t)crc32_z(0, out, bytes));
}

/* Reserved words are 0.  Pieces say where they start, and the bytes do not: it
 * must follow. */
static bool is_plain(const struct mrg_descriptor *desc)
{
	uint64_t reserved = desc->reserved[0] | desc->reserved[1];

	for (size_t i = 0; i < desc->share_count; i++)
		reserved |= desc->shares[i].reserved;
	for (size_t i = 0; i < desc->device_count; i++) {
		const struct mrg_desc_device *device = &desc->devices[i];
		uint64_t start = 0;

		reserved |= device->reserved[0] | device->reserved[1];
		for (size_t j = 0; j < device->count; start += device->pieces[j++].length) {
			reserved |= device->pieces[j].reserved;
			if (device->pieces[j].start != start)
				return false;
		}
	}
	return !reserved;
}

/* The reader is the one judge of what a descriptor may hold: 0, -EINVAL or -ENOMEM. */
static int read_back(const uint8_t *bytes, size_t length, const struct mrg_descriptor *desc)
{
	struct mrg_descriptor again;
	int ret = mrg_descriptor_decode(bytes, length, &again, NULL);
	bool same;

	if (ret)
		return ret == -ENOMEM ? ret : -EINVAL;
	same = again.device_count == desc->device_count && again.share_count == desc->share_count;
	mrg_descriptor_release(&again);
	return same ? 0 : -EINVAL;
}

ssize_t mrg_descriptor_encode(const struct mrg_descriptor *desc, void **bytes)
{
	size_t length = total_bytes(desc);
	uint8_t *out;
	int ret;

	if (!length || !is_plain(desc))
		return -EINVAL;
	out = malloc(length);
	if (!out)
		return -ENOMEM;
	write_all(out, desc, length);
	ret = read_back(out, length, desc);
	if (ret) {
		free(out);
		return ret;
	}
	*bytes = out;
	return (ssize_t)length;
}
