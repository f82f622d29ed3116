/* SPDX-License-Identifier: MIT */
/* A descriptor from bytes that may be anything. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <mrguard/descriptor.h>

#include "base/error.h"
#include "base/le_reader.h"
#include "base/text.h"
#include "registry/descriptor_wire.h"

#define STAGE "read descriptor"
#define PASS_ON "Pass the bytes on as they are."
#define SAME_VERSION "Run the same version of libmrguard-transfer on both sides."

/* Besides 0 and -errno: a device or a share of a kind that came later. */
#define NOT_KNOWN 1

struct decoder {
	struct base_le_reader bytes;
	struct mrg_error *error;
	struct mrg_descriptor *desc;
};

static int damaged(const struct decoder *in, const char *what)
{
	return base_error_set(in->error, -EBADMSG, STAGE, PASS_ON, "The descriptor is damaged: %s.",
			      what);
}

static int no_memory(const struct decoder *in, size_t bytes)
{
	return base_error_set(in->error, -ENOMEM, STAGE, "Free memory.",
			      "There is no memory for %zu bytes of the descriptor.", bytes);
}

/* Names go to terminals and into logs: visible ASCII, then zeros. */
static bool take_name(struct decoder *in, char name[DESC_NAME])
{
	size_t length;

	base_le_bytes(&in->bytes, name, DESC_NAME);
	length = strnlen(name, DESC_NAME);
	if (length == DESC_NAME)
		return false;
	if (!base_is_visible(name, length))
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
				      "Check that both sides mean the same kind of bytes.",
				      "The %zu bytes are no descriptor of mrguard.", length);
	memcpy(&version, bytes + 8, sizeof(version));
	version = le16toh(version);
	if (version != DESC_VERSION)
		return base_error_set(
			error, -EPROTONOSUPPORT, STAGE, SAME_VERSION,
			"The descriptor has version %u, and this library knows version %u.",
			version, DESC_VERSION);
	memcpy(&total, bytes + DESC_TOTAL_AT, sizeof(total));
	total = le32toh(total);
	if (length > MRG_DESC_MAX_BYTES)
		return base_error_set(error, -EFBIG, STAGE, "Describe smaller buffers.",
				      "The descriptor has %zu bytes, and the limit is %u.", length,
				      MRG_DESC_MAX_BYTES);
	if (length < DESC_HEAD || total != length)
		return base_error_set(error, -EBADMSG, STAGE, PASS_ON,
				      "The descriptor is cut: %zu bytes of %u.", length, total);
	memcpy(&check, bytes + DESC_CHECK_AT, sizeof(check));
	crc = crc32_z(0, bytes, DESC_CHECK_AT);
	crc = crc32_z(crc, zeros, sizeof(zeros));
	crc = crc32_z(crc, bytes + DESC_CHECK_AT + 4, length - DESC_CHECK_AT - 4);
	if (le32toh(check) == crc)
		return 0;
	return base_error_set(
		error, -EBADMSG, STAGE, PASS_ON,
		"The descriptor is damaged: its checksum is %08x, and its bytes give %08lx.",
		le32toh(check), crc);
}

static int take_buffer(struct decoder *in)
{
	struct mrg_descriptor *desc = in->desc;
	bool named;

	if (in->bytes.left != DESC_BUFFER_BYTES)
		return damaged(in, "the part of the buffer has another length");
	desc->addr = base_le_u64(&in->bytes);
	desc->length = base_le_u64(&in->bytes);
	base_le_bytes(&in->bytes, desc->boot, sizeof(desc->boot));
	named = take_name(in, desc->host);
	desc->instance = base_le_u64(&in->bytes);
	desc->generation = base_le_u64(&in->bytes);
	if (!named)
		return damaged(in, "its host name is not valid");
	if (!desc->length || desc->addr > UINT64_MAX - (desc->length - 1))
		return damaged(in, "its range is empty or overflows");
	return 0;
}

static int take_pieces(struct decoder *in, struct mrg_desc_device *device)
{
	size_t count = in->bytes.left / DESC_PIECE_BYTES;
	uint64_t start = 0;

	if (!count || count > MRG_DESC_MAX_PIECES || in->bytes.left % DESC_PIECE_BYTES)
		return damaged(in, "a device has no pieces, too many, or a part of one");
	device->pieces = calloc(count, sizeof(*device->pieces));
	if (!device->pieces)
		return no_memory(in, count * sizeof(*device->pieces));
	device->count = count;
	for (size_t i = 0; i < count; i++) {
		struct mrg_desc_piece *piece = &device->pieces[i];

		piece->wire = base_le_u64(&in->bytes);
		piece->length = base_le_u64(&in->bytes);
		piece->rkey = base_le_u32(&in->bytes);
		piece->start = start;
		if (!piece->length || piece->length > in->desc->length - start ||
		    piece->wire > UINT64_MAX - (piece->length - 1))
			return damaged(in, "a device's pieces do not fit the buffer");
		start += piece->length;
	}
	if (start != in->desc->length)
		return damaged(in, "a device's pieces do not fill the buffer");
	return 0;
}

/* enum ibv_link_layer; unspecified is what old drivers say of InfiniBand. */
#define LAST_LINK_LAYER 2

static int take_device(struct decoder *in)
{
	struct mrg_desc_device *device = &in->desc->devices[in->desc->device_count];
	uint8_t kinds[4];
	uint16_t zero;
	bool named;

	named = take_name(in, device->name);
	base_le_bytes(&in->bytes, &device->guid, sizeof(device->guid));
	base_le_bytes(&in->bytes, device->gid, sizeof(device->gid));
	base_le_bytes(&in->bytes, kinds, sizeof(kinds));
	device->lid = base_le_u16(&in->bytes);
	zero = base_le_u16(&in->bytes);
	device->access = base_le_u32(&in->bytes);
	if (in->bytes.bad)
		return damaged(in, "a device is cut short");
	if (!named || !kinds[2] || kinds[3] || zero)
		return damaged(in, "a device's fields are not valid");
	if (kinds[0] > MRG_GID_ROCE_V2 || kinds[1] > LAST_LINK_LAYER) {
		memset(device, 0, sizeof(*device));
		return NOT_KNOWN;
	}
	device->gid_type = (enum mrg_gid_type)kinds[0];
	device->link_layer = kinds[1];
	device->port = kinds[2];
	in->desc->device_count++;
	return take_pieces(in, device);
}

static int take_share(struct decoder *in)
{
	struct mrg_desc_share *share = &in->desc->shares[in->desc->share_count];
	uint32_t protocol = base_le_u32(&in->bytes);
	size_t length = in->bytes.left;

	if (in->bytes.bad || !length || length > MRG_DESC_MAX_SHARE)
		return damaged(in, "a share's token is empty or too long");
	if (protocol <= MRG_PROTO_VERBS || protocol >= MRG_PROTO_COUNT)
		return NOT_KNOWN;
	if (mrg_descriptor_share(in->desc, (enum mrg_protocol)protocol))
		return damaged(in, "two shares are of one protocol");
	share->bytes = malloc(length);
	if (!share->bytes)
		return no_memory(in, length);
	base_le_bytes(&in->bytes, share->bytes, length);
	share->length = length;
	share->protocol = (enum mrg_protocol)protocol;
	in->desc->share_count++;
	return 0;
}

/* ---- parts ---- */

/* @at: before the part's type.  There is room: all that was left at the first one. */
static int keep_unknown(struct decoder *in, const uint8_t *at, size_t length, size_t room)
{
	struct mrg_descriptor *desc = in->desc;

	if (!desc->unknown)
		desc->unknown = malloc(room);
	if (!desc->unknown)
		return no_memory(in, room);
	memcpy(desc->unknown + desc->unknown_length, at, length);
	desc->unknown_length += length;
	return 0;
}

/* Reads what stands before a part's content, and steps over both. */
static int next_part(struct decoder *in, uint32_t *type, struct decoder *part)
{
	*part = *in;
	*type = base_le_u32(&in->bytes);
	part->bytes = base_le_skip(&in->bytes, base_le_u32(&in->bytes));
	return in->bytes.bad ? damaged(in, "a part is cut short") : 0;
}

static int take_part(struct decoder *in)
{
	const struct base_le_reader before = in->bytes;
	struct decoder part;
	uint32_t type;
	int ret = next_part(in, &type, &part);

	if (ret)
		return ret;
	switch (type & ~DESC_MUST) {
	case DESC_BUFFER:
		return damaged(in, "it has two parts of the buffer");
	case DESC_DEVICE:
		ret = take_device(&part);
		break;
	case DESC_SHARE:
		ret = take_share(&part);
		break;
	default:
		ret = NOT_KNOWN;
	}
	if (ret != NOT_KNOWN)
		return ret;
	if (type & DESC_MUST)
		return base_error_set(
			in->error, -EPROTONOSUPPORT, STAGE, SAME_VERSION,
			"The descriptor has a part of type %u that must be understood, "
			"and this library does not know its kind.",
			type & ~DESC_MUST);
	return keep_unknown(in, before.at, (size_t)(in->bytes.at - before.at), before.left);
}

/* Room for the devices and shares that there are at most. */
static int make_room(struct decoder *in)
{
	struct decoder at = *in, part;
	size_t devices = 0, shares = 0;
	uint32_t type;

	while (at.bytes.left) {
		int ret = next_part(&at, &type, &part);

		if (ret)
			return ret;
		devices += (type & ~DESC_MUST) == DESC_DEVICE;
		shares += (type & ~DESC_MUST) == DESC_SHARE;
	}
	if (devices > MRG_DESC_MAX_DEVICES || shares > MRG_DESC_MAX_SHARES)
		return damaged(in, "it has too many devices or shares");
	if (devices)
		in->desc->devices = calloc(devices, sizeof(*in->desc->devices));
	if (shares)
		in->desc->shares = calloc(shares, sizeof(*in->desc->shares));
	if ((devices && !in->desc->devices) || (shares && !in->desc->shares))
		return no_memory(in, devices * sizeof(*in->desc->devices));
	return 0;
}

static int take_all(struct decoder *in)
{
	struct decoder part;
	uint32_t type;
	int ret;

	if (in->bytes.at[10] || in->bytes.at[11])
		return damaged(in, "its head has a field that is not 0");
	base_le_skip(&in->bytes, DESC_HEAD);
	ret = next_part(in, &type, &part);
	if (!ret && (type & ~DESC_MUST) != DESC_BUFFER)
		ret = damaged(in, "the part of the buffer does not come first");
	if (!ret)
		ret = take_buffer(&part);
	if (!ret)
		ret = make_room(in);
	while (!ret && in->bytes.left)
		ret = take_part(in);
	return ret;
}

int mrg_descriptor_decode(const void *bytes, size_t length, struct mrg_descriptor *desc,
			  struct mrg_error *error)
{
	struct mrg_descriptor found = { 0 };
	struct decoder in = { .bytes = { .at = bytes, .left = length },
			      .error = error,
			      .desc = &found };
	int ret = check_envelope(bytes, length, error);

	if (!ret)
		ret = take_all(&in);
	if (ret)
		mrg_descriptor_release(&found);
	else
		*desc = found;
	return ret;
}
