/* SPDX-License-Identifier: MIT */
/* A descriptor to bytes. */
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <mrguard/descriptor.h>

#include "registry/descriptor_wire.h"

static uint8_t *put_bytes(uint8_t *to, const void *bytes, size_t length)
{
	if (length)
		memcpy(to, bytes, length);
	return to + length;
}

static uint8_t *put16(uint8_t *to, uint16_t value)
{
	value = htole16(value);
	return put_bytes(to, &value, sizeof(value));
}

static uint8_t *put32(uint8_t *to, uint32_t value)
{
	value = htole32(value);
	return put_bytes(to, &value, sizeof(value));
}

static uint8_t *put64(uint8_t *to, uint64_t value)
{
	value = htole64(value);
	return put_bytes(to, &value, sizeof(value));
}

/* What follows the NUL in a field of the caller's is not the reader's. */
static uint8_t *put_name(uint8_t *to, const char name[DESC_NAME])
{
	size_t length = strnlen(name, DESC_NAME);

	memcpy(to, name, length);
	memset(to + length, 0, DESC_NAME - length);
	return to + DESC_NAME;
}

static uint8_t *put_part(uint8_t *to, uint32_t type, size_t length)
{
	to = put32(to, type);
	return put32(to, (uint32_t)length);
}

static uint8_t *put_buffer(uint8_t *to, const struct mrg_descriptor *desc)
{
	to = put_part(to, DESC_BUFFER | DESC_MUST, DESC_BUFFER_BYTES);
	to = put64(to, desc->addr);
	to = put64(to, desc->length);
	to = put_bytes(to, desc->boot, sizeof(desc->boot));
	to = put_name(to, desc->host);
	to = put64(to, desc->instance);
	return put64(to, desc->generation);
}

static uint8_t *put_device(uint8_t *to, const struct mrg_desc_device *device)
{
	const uint8_t kinds[] = { (uint8_t)device->gid_type, device->link_layer, device->port, 0 };

	to = put_part(to, DESC_DEVICE, DESC_DEVICE_BYTES + device->count * DESC_PIECE_BYTES);
	to = put_name(to, device->name);
	to = put_bytes(to, &device->guid, sizeof(device->guid));
	to = put_bytes(to, device->gid, sizeof(device->gid));
	to = put_bytes(to, kinds, sizeof(kinds));
	to = put16(to, device->lid);
	to = put16(to, 0);
	to = put32(to, device->access);
	for (size_t i = 0; i < device->count; i++) {
		to = put64(to, device->pieces[i].wire);
		to = put64(to, device->pieces[i].length);
		to = put32(to, device->pieces[i].rkey);
	}
	return to;
}

static uint8_t *put_share(uint8_t *to, const struct mrg_desc_share *share)
{
	to = put_part(to, DESC_SHARE, DESC_SHARE_BYTES + share->length);
	to = put32(to, share->protocol);
	return put_bytes(to, share->bytes, share->length);
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
	uint8_t *to = put_bytes(out, DESC_MAGIC, sizeof(DESC_MAGIC) - 1);

	to = put16(to, DESC_VERSION);
	to = put16(to, 0);
	to = put32(to, (uint32_t)bytes);
	to = put32(to, 0);
	to = put_buffer(to, desc);
	for (size_t i = 0; i < desc->device_count; i++)
		to = put_device(to, &desc->devices[i]);
	for (size_t i = 0; i < desc->share_count; i++)
		to = put_share(to, &desc->shares[i]);
	put_bytes(to, desc->unknown, desc->unknown_length);
	put32(out + DESC_CHECK_AT, (uint32_t)crc32_z(0, out, bytes));
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

/* The reader is the one judge of what a descriptor may hold. */
static bool reads_back(const uint8_t *bytes, size_t length, const struct mrg_descriptor *desc)
{
	struct mrg_descriptor again;
	bool same;

	if (mrg_descriptor_decode(bytes, length, &again, NULL))
		return false;
	same = again.device_count == desc->device_count && again.share_count == desc->share_count;
	mrg_descriptor_release(&again);
	return same;
}

ssize_t mrg_descriptor_encode(const struct mrg_descriptor *desc, void **bytes)
{
	size_t length = total_bytes(desc);
	uint8_t *out;

	if (!length || !is_plain(desc))
		return -EINVAL;
	out = malloc(length);
	if (!out)
		return -ENOMEM;
	write_all(out, desc, length);
	if (!reads_back(out, length, desc)) {
		free(out);
		return -EINVAL;
	}
	*bytes = out;
	return (ssize_t)length;
}
