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

static uint8_t *put_head(uint8_t *to, const struct mrg_descriptor *desc, size_t bytes)
{
	to = put_bytes(to, DESC_MAGIC, sizeof(DESC_MAGIC) - 1);
	to = put16(to, DESC_VERSION);
	to = put16(to, (uint16_t)desc->device_count);
	to = put32(to, (uint32_t)bytes);
	to = put32(to, 0);
	to = put16(to, (uint16_t)desc->share_count);
	to = put16(to, 0);
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

	to = put_name(to, device->name);
	to = put_bytes(to, &device->guid, sizeof(device->guid));
	to = put_bytes(to, device->gid, sizeof(device->gid));
	to = put_bytes(to, kinds, sizeof(kinds));
	to = put16(to, device->lid);
	to = put16(to, 0);
	to = put32(to, device->access);
	to = put32(to, (uint32_t)device->count);
	for (size_t i = 0; i < device->count; i++) {
		to = put64(to, device->pieces[i].wire);
		to = put64(to, device->pieces[i].length);
		to = put32(to, device->pieces[i].rkey);
	}
	return to;
}

static uint8_t *put_share(uint8_t *to, const struct mrg_desc_share *share)
{
	to = put32(to, share->protocol);
	to = put32(to, (uint32_t)share->length);
	return put_bytes(to, share->bytes, share->length);
}

/* 0: above the limits, which are such that no sum here overflows. */
static size_t total_bytes(const struct mrg_descriptor *desc)
{
	size_t bytes = DESC_HEAD;

	if (desc->device_count > MRG_DESC_MAX_DEVICES || desc->share_count > MRG_DESC_MAX_SHARES)
		return 0;
	for (size_t i = 0; i < desc->device_count; i++) {
		if (desc->devices[i].count > MRG_DESC_MAX_PIECES)
			return 0;
		bytes += DESC_DEVICE + desc->devices[i].count * DESC_PIECE;
	}
	for (size_t i = 0; i < desc->share_count; i++) {
		if (desc->shares[i].length > MRG_DESC_MAX_SHARE)
			return 0;
		bytes += DESC_SHARE + desc->shares[i].length;
	}
	return bytes > MRG_DESC_MAX_BYTES ? 0 : bytes;
}

static void write_all(uint8_t *out, const struct mrg_descriptor *desc, size_t bytes)
{
	uint8_t *to = put_head(out, desc, bytes);

	for (size_t i = 0; i < desc->device_count; i++)
		to = put_device(to, &desc->devices[i]);
	for (size_t i = 0; i < desc->share_count; i++)
		to = put_share(to, &desc->shares[i]);
	put32(out + DESC_CHECK_AT, (uint32_t)crc32_z(0, out, bytes));
}

/* Pieces say where they start, and the bytes do not: it must follow. */
static bool starts_follow(const struct mrg_desc_device *device)
{
	uint64_t start = 0;

	for (size_t i = 0; i < device->count; i++) {
		if (device->pieces[i].start != start)
			return false;
		start += device->pieces[i].length;
	}
	return true;
}

/* The reader is the one judge of what a descriptor may hold. */
static bool reads_back(const uint8_t *bytes, size_t length)
{
	struct mrg_descriptor again;

	if (mrg_descriptor_decode(bytes, length, &again, NULL))
		return false;
	mrg_descriptor_release(&again);
	return true;
}

ssize_t mrg_descriptor_encode(const struct mrg_descriptor *desc, void **bytes)
{
	size_t length = total_bytes(desc);
	uint8_t *out;

	if (!length)
		return -EINVAL;
	for (size_t i = 0; i < desc->device_count; i++)
		if (!starts_follow(&desc->devices[i]))
			return -EINVAL;
	out = malloc(length);
	if (!out)
		return -ENOMEM;
	write_all(out, desc, length);
	if (!reads_back(out, length)) {
		free(out);
		return -EINVAL;
	}
	*bytes = out;
	return (ssize_t)length;
}
