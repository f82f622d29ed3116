/* SPDX-License-Identifier: MIT */
/* A descriptor from bytes that may be anything. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <mrguard/descriptor.h>

#include "registry/descriptor_wire.h"
#include "base/error.h"
#include "base/le_reader.h"

#define STAGE "read descriptor"
#define PASS_ON "pass the bytes on as they are"
#define SAME_VERSION "run the same version of libmrguard on both sides"

struct decoder {
	struct base_le_reader bytes;
	struct mrg_error *error;
};

static int damaged(const struct decoder *in, const char *what)
{
	return base_error_set(in->error, -EBADMSG, STAGE, PASS_ON, "the descriptor is damaged: %s",
			      what);
}

/* Names go to terminals and into logs: visible ASCII, then zeros. */
static bool take_name(struct decoder *in, char name[DESC_NAME])
{
	size_t length;

	base_le_bytes(&in->bytes, name, DESC_NAME);
	length = strnlen(name, DESC_NAME);
	if (length == DESC_NAME)
		return false;
	for (size_t i = 0; i < length; i++)
		if (name[i] <= ' ' || name[i] > '~')
			return false;
	for (size_t i = length; i < DESC_NAME; i++)
		if (name[i])
			return false;
	return true;
}

/* Before any other field is believed: whose bytes, of which version, whole? */
static int check_envelope(const uint8_t *bytes, size_t length, struct mrg_error *error)
{
	static const uint8_t zeros[4];
	uint32_t total, check;
	uint16_t version;
	unsigned long crc;

	if (length < DESC_CHECK_AT || memcmp(bytes, DESC_MAGIC, 8))
		return base_error_set(error, -EBADMSG, STAGE,
				      "check that both sides mean the same kind of bytes",
				      "the %zu bytes are no descriptor of mrguard", length);
	memcpy(&version, bytes + 8, sizeof(version));
	version = le16toh(version);
	if (version != DESC_VERSION)
		return base_error_set(
			error, -EPROTONOSUPPORT, STAGE, SAME_VERSION,
			"the descriptor has version %u, and this library knows version %u", version,
			DESC_VERSION);
	memcpy(&total, bytes + 12, sizeof(total));
	total = le32toh(total);
	if (length > MRG_DESC_MAX_BYTES)
		return base_error_set(error, -EFBIG, STAGE, "describe smaller buffers",
				      "the descriptor has %zu bytes, and the limit is %u", length,
				      MRG_DESC_MAX_BYTES);
	if (length < DESC_HEAD || total != length)
		return base_error_set(error, -EBADMSG, STAGE, PASS_ON,
				      "the descriptor is cut: %zu bytes of %u", length, total);
	memcpy(&check, bytes + DESC_CHECK_AT, sizeof(check));
	crc = crc32_z(0, bytes, DESC_CHECK_AT);
	crc = crc32_z(crc, zeros, sizeof(zeros));
	crc = crc32_z(crc, bytes + DESC_CHECK_AT + 4, length - DESC_CHECK_AT - 4);
	if (le32toh(check) == crc)
		return 0;
	return base_error_set(
		error, -EBADMSG, STAGE, PASS_ON,
		"the descriptor is damaged: its checksum is %08x, and its bytes give %08lx",
		le32toh(check), crc);
}

static int take_pieces(struct decoder *in, const struct mrg_descriptor *desc,
		       struct mrg_desc_device *device, uint32_t count)
{
	uint64_t start = 0;

	if (!count || count > MRG_DESC_MAX_PIECES || in->bytes.left / DESC_PIECE < count)
		return damaged(in, "a device has another number of pieces");
	device->pieces = calloc(count, sizeof(*device->pieces));
	if (!device->pieces)
		return base_error_set(in->error, -ENOMEM, STAGE, "", "no memory for %u pieces",
				      count);
	device->count = count;
	for (uint32_t i = 0; i < count; i++) {
		struct mrg_desc_piece *piece = &device->pieces[i];

		piece->wire = base_le_u64(&in->bytes);
		piece->length = base_le_u64(&in->bytes);
		piece->rkey = base_le_u32(&in->bytes);
		piece->start = start;
		if (!piece->length || piece->length > desc->length - start ||
		    piece->wire > UINT64_MAX - (piece->length - 1))
			return damaged(in, "a device's pieces do not fit the buffer");
		start += piece->length;
	}
	if (start != desc->length)
		return damaged(in, "a device's pieces do not fill the buffer");
	return 0;
}

/* enum ibv_link_layer; unspecified is what old drivers say of InfiniBand. */
#define LAST_LINK_LAYER 2

static int take_device(struct decoder *in, const struct mrg_descriptor *desc,
		       struct mrg_desc_device *device)
{
	bool named = take_name(in, device->name);
	uint16_t zero16;
	uint8_t kinds[4];

	base_le_bytes(&in->bytes, &device->guid, sizeof(device->guid));
	base_le_bytes(&in->bytes, device->gid, sizeof(device->gid));
	base_le_bytes(&in->bytes, kinds, sizeof(kinds));
	device->lid = base_le_u16(&in->bytes);
	zero16 = base_le_u16(&in->bytes);
	device->access = base_le_u32(&in->bytes);
	if (in->bytes.bad)
		return damaged(in, "a device is cut short");
	if (!named || !kinds[2] || kinds[3] || zero16)
		return damaged(in, "a device's fields are none");
	if (kinds[0] > MRG_GID_ROCE_V2 || kinds[1] > LAST_LINK_LAYER)
		return base_error_set(
			in->error, -EPROTONOSUPPORT, STAGE, SAME_VERSION,
			"device %s has GID type %u on link layer %u, which this library does not know",
			device->name, kinds[0], kinds[1]);
	device->gid_type = (enum mrg_gid_type)kinds[0];
	device->link_layer = kinds[1];
	device->port = kinds[2];
	return take_pieces(in, desc, device, base_le_u32(&in->bytes));
}

static int take_devices(struct decoder *in, struct mrg_descriptor *desc, size_t count)
{
	if (!count)
		return 0;
	if (count > MRG_DESC_MAX_DEVICES)
		return damaged(in, "it has too many devices");
	desc->devices = calloc(count, sizeof(*desc->devices));
	if (!desc->devices)
		return base_error_set(in->error, -ENOMEM, STAGE, "", "no memory for %zu devices",
				      count);
	for (size_t i = 0; i < count; i++) {
		int ret = take_device(in, desc, &desc->devices[desc->device_count++]);

		if (ret)
			return ret;
	}
	return 0;
}

static int take_share(struct decoder *in, const struct mrg_descriptor *desc,
		      struct mrg_desc_share *share)
{
	uint32_t protocol = base_le_u32(&in->bytes), length = base_le_u32(&in->bytes);

	if (in->bytes.bad || !length || length > MRG_DESC_MAX_SHARE || length > in->bytes.left)
		return damaged(in, "a share is cut short");
	if (protocol <= MRG_PROTO_VERBS || protocol >= MRG_PROTO_COUNT)
		return base_error_set(
			in->error, -EPROTONOSUPPORT, STAGE, SAME_VERSION,
			"the descriptor has a share of protocol %u, which this library does not know",
			protocol);
	if (mrg_descriptor_share(desc, (enum mrg_protocol)protocol))
		return damaged(in, "two shares are of one protocol");
	share->bytes = malloc(length);
	if (!share->bytes)
		return base_error_set(in->error, -ENOMEM, STAGE, "",
				      "no memory for a share of %u bytes", length);
	base_le_bytes(&in->bytes, share->bytes, length);
	share->length = length;
	share->protocol = (enum mrg_protocol)protocol;
	return 0;
}

static int take_shares(struct decoder *in, struct mrg_descriptor *desc, size_t count)
{
	if (!count)
		return 0;
	if (count > MRG_DESC_MAX_SHARES)
		return damaged(in, "it has too many shares");
	desc->shares = calloc(count, sizeof(*desc->shares));
	if (!desc->shares)
		return base_error_set(in->error, -ENOMEM, STAGE, "", "no memory for %zu shares",
				      count);
	for (size_t i = 0; i < count; i++) {
		int ret = take_share(in, desc, &desc->shares[i]);

		if (ret)
			return ret;
		desc->share_count++;
	}
	return 0;
}

static int take_all(struct decoder *in, struct mrg_descriptor *desc)
{
	uint16_t devices, shares, zero;
	bool named;
	int ret;

	in->bytes.at += 10;
	in->bytes.left -= 10;
	devices = base_le_u16(&in->bytes);
	base_le_u32(&in->bytes); /* the envelope's */
	base_le_u32(&in->bytes);
	shares = base_le_u16(&in->bytes);
	zero = base_le_u16(&in->bytes);
	desc->addr = base_le_u64(&in->bytes);
	desc->length = base_le_u64(&in->bytes);
	base_le_bytes(&in->bytes, desc->boot, sizeof(desc->boot));
	named = take_name(in, desc->host);
	desc->instance = base_le_u64(&in->bytes);
	desc->generation = base_le_u64(&in->bytes);
	if (!named || zero)
		return damaged(in, "its host name is none");
	if (!desc->length || desc->addr > UINT64_MAX - (desc->length - 1))
		return damaged(in, "its range is empty or overflows");
	ret = take_devices(in, desc, devices);
	if (!ret)
		ret = take_shares(in, desc, shares);
	if (!ret && in->bytes.left)
		ret = damaged(in, "bytes are left over");
	return ret;
}

int mrg_descriptor_decode(const void *bytes, size_t length, struct mrg_descriptor *desc,
			  struct mrg_error *error)
{
	struct decoder in = { .bytes = { .at = bytes, .left = length }, .error = error };
	struct mrg_descriptor found = { 0 };
	int ret = check_envelope(bytes, length, error);

	if (!ret)
		ret = take_all(&in, &found);
	if (ret)
		mrg_descriptor_release(&found);
	else
		*desc = found;
	return ret;
}
