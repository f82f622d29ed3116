/* SPDX-License-Identifier: MIT */
/* mrguard show: what a buffer's descriptor says. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mrguard/descriptor.h>
#include <mrguard/gid.h>

#include "base/error.h"
#include "tools/args.h"
#include "tools/commands.h"
#include "tools/fail.h"
#include "tools/json.h"

#define SCHEMA "mrguard.show/1"
#define FEW_PIECES 16

struct show_args {
	const char *file;
	bool all;
	struct output_args output;
};

#define AT(field) ARGS_AT(struct show_args, field)
static const struct args_option options[] = {
	{ .value = "file", .kind = ARGS_TEXT, AT(file) },
	{ .kind = ARGS_GROUP, .group = output_options, AT(output) },
	{ "all", NULL, "List each MR, however many there are", ARGS_FLAG, AT(all) },
	{ 0 },
};

static const struct args_command command = {
	.options = options,
	.usage = "[FILE]",
	.doc = "Say what a buffer's descriptor in FILE, or on standard input, tells a peer.",
};

/* ---- reading ---- */

static int read_stream(FILE *in, const char *name, uint8_t **bytes, size_t *length,
		       struct mrg_error *error)
{
	uint8_t *room = malloc(MRG_DESC_MAX_BYTES + 1u);

	if (!room)
		return base_error_set(error, -ENOMEM, "read file", "",
				      "There is no memory to read %s.", name);
	*length = fread(room, 1, MRG_DESC_MAX_BYTES + 1u, in);
	if (ferror(in)) {
		free(room);
		return base_error_set(error, -EIO, "read file", "Check its permissions.",
				      "The descriptor in %s cannot be read: %m.", name);
	}
	*bytes = room;
	return 0;
}

static int read_bytes(const char *file, uint8_t **bytes, size_t *length, struct mrg_error *error)
{
	FILE *in;
	int ret;

	if (!file || !strcmp(file, "-"))
		return read_stream(stdin, "standard input", bytes, length, error);
	in = fopen(file, "re");
	if (!in)
		return base_error_set(error, -errno, "read file",
				      "Check the name and its permissions.",
				      "The file %s cannot be opened: %m.", file);
	ret = read_stream(in, file, bytes, length, error);
	fclose(in);
	return ret;
}

/* Return: an exit status */
static int read_descriptor(const char *file, struct mrg_descriptor *desc, struct mrg_error *error)
{
	uint8_t *bytes;
	size_t length;
	int ret;

	if (read_bytes(file, &bytes, &length, error))
		return EXIT_FAILED;
	ret = mrg_descriptor_decode(bytes, length, desc, error);
	free(bytes);
	return ret ? EXIT_FINDING : EXIT_OK;
}

/* ---- words ---- */

static const char *gid_type_name(enum mrg_gid_type type)
{
	return type == MRG_GID_ROCE_V2 ? "RoCE v2" : type == MRG_GID_ROCE_V1 ? "RoCE v1" : "IB";
}

static const char *link_layer_name(uint8_t layer)
{
	return layer == 1 ? "InfiniBand" : layer == 2 ? "Ethernet" : "unspecified";
}

/* As /proc/sys/kernel/random/boot_id has it. */
static const char *boot_text(const uint8_t boot[16], char text[40])
{
	char *at = text;

	for (int i = 0; i < 16; i++)
		at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      boot[i]);
	return text;
}

static bool is_set(const uint8_t *bytes, size_t length)
{
	while (length--)
		if (*bytes++)
			return true;
	return false;
}

static bool is_here(const struct mrg_descriptor *desc)
{
	uint8_t boot[16];

	return !mrg_boot_id(boot) && !memcmp(boot, desc->boot, sizeof(boot));
}

/* The GUID is in the byte order of the wire. */
static uint64_t guid_number(uint64_t guid)
{
	const uint8_t *bytes = (const uint8_t *)&guid;
	uint64_t number = 0;

	for (int i = 0; i < 8; i++)
		number = number << 8 | bytes[i];
	return number;
}

/* ---- JSON ---- */

static json_t *json_pieces(const struct mrg_desc_device *device)
{
	json_t *list = json_array();

	for (size_t i = 0; i < device->count; i++) {
		json_t *piece = json_object();

		json_put(&piece, "start", json_hex(device->pieces[i].start));
		json_put(&piece, "length", json_hex(device->pieces[i].length));
		json_put(&piece, "wire", json_hex(device->pieces[i].wire));
		json_put(&piece, "rkey", json_hex(device->pieces[i].rkey));
		json_array_append_new(list, piece);
	}
	return list;
}

static json_t *json_device(const struct mrg_desc_device *device)
{
	json_t *object = json_object();
	char gid[MRG_GID_TEXT];

	json_put(&object, "name", json_text(device->name));
	json_put(&object, "port", json_count(device->port));
	json_put(&object, "guid", json_hex(guid_number(device->guid)));
	json_put(&object, "gid",
		 is_set(device->gid, 16) ? json_string(mrg_gid_text(device->gid, gid)) :
					   json_null());
	json_put(&object, "gid_type", json_string(gid_type_name(device->gid_type)));
	json_put(&object, "lid", json_count(device->lid));
	json_put(&object, "link_layer", json_string(link_layer_name(device->link_layer)));
	json_put(&object, "access", json_hex(device->access));
	json_put(&object, "pieces", json_pieces(device));
	return object;
}

static json_t *json_share(const struct mrg_desc_share *share)
{
	json_t *object = json_object();

	json_put(&object, "protocol", json_string(mrg_protocol_name(share->protocol)));
	json_put(&object, "bytes", json_count(share->length));
	return object;
}

static int print_json(const struct mrg_descriptor *desc)
{
	json_t *root = json_object(), *devices = json_array(), *shares = json_array();
	char boot[40];

	for (size_t i = 0; i < desc->device_count; i++)
		json_array_append_new(devices, json_device(&desc->devices[i]));
	for (size_t i = 0; i < desc->share_count; i++)
		json_array_append_new(shares, json_share(&desc->shares[i]));
	json_put(&root, "schema", json_string(SCHEMA));
	json_put(&root, "addr", json_hex(desc->addr));
	json_put(&root, "length", json_hex(desc->length));
	json_put(&root, "host", json_text(desc->host));
	json_put(&root, "boot_id", json_string(boot_text(desc->boot, boot)));
	json_put(&root, "this_machine", json_boolean(is_here(desc)));
	json_put(&root, "instance", json_hex(desc->instance));
	json_put(&root, "generation", json_count(desc->generation));
	json_put(&root, "devices", devices);
	json_put(&root, "shares", shares);
	return json_print(root) ? EXIT_FAILED : EXIT_OK;
}

/* ---- text ---- */

static void label(const struct term *term, const char *word)
{
	term_print(term, TERM_STRONG, "%-*s", TERM_LABEL, word);
}

static void print_pieces(const struct mrg_desc_device *device, bool all)
{
	size_t count = all || device->count <= FEW_PIECES ? device->count : FEW_PIECES;

	for (size_t i = 0; i < count; i++) {
		const struct mrg_desc_piece *piece = &device->pieces[i];

		printf("%-*s  +0x%-12" PRIx64 " %10s  wire 0x%" PRIx64 "  rkey 0x%" PRIx32 "\n",
		       TERM_LABEL, "", piece->start, term_exact(piece->length).text, piece->wire,
		       piece->rkey);
	}
	if (count < device->count)
		printf("%-*s  and %zu more: see --all\n", TERM_LABEL, "", device->count - count);
}

static void print_device(const struct term *term, const struct mrg_desc_device *device, bool all)
{
	char gid[MRG_GID_TEXT];

	label(term, "verbs");
	printf("%s port %u, %s", device->name, device->port, link_layer_name(device->link_layer));
	if (is_set(device->gid, 16))
		printf(", GID %s (%s)", mrg_gid_text(device->gid, gid),
		       gid_type_name(device->gid_type));
	if (device->lid)
		printf(", LID %u", device->lid);
	printf(", %zu MR%s\n", device->count, device->count == 1 ? "" : "s");
	print_pieces(device, all);
}

static int print_text(const struct mrg_descriptor *desc, const struct show_args *args)
{
	struct term term;
	char boot[40];

	term_init(&term, stdout, args->output.colour);
	label(&term, "buffer");
	printf("%s at 0x%" PRIx64 ", generation %" PRIu64 " of registry %" PRIx64 "\n",
	       term_size(desc->length).text, desc->addr, desc->generation, desc->instance);
	label(&term, "host");
	printf("%s, boot %s%s\n", desc->host[0] ? desc->host : "(no name)",
	       is_set(desc->boot, 16) ? boot_text(desc->boot, boot) : "not known",
	       is_here(desc) ? ": this machine" : "");
	for (size_t i = 0; i < desc->device_count; i++)
		print_device(&term, &desc->devices[i], args->all);
	for (size_t i = 0; i < desc->share_count; i++) {
		label(&term, "share");
		printf("%s, %zu bytes, for processes of that machine\n",
		       mrg_protocol_name(desc->shares[i].protocol), desc->shares[i].length);
	}
	if (!desc->device_count && !desc->share_count)
		printf("no protocol: nobody can reach it\n");
	return EXIT_OK;
}

int cmd_show(int argc, char **argv)
{
	struct show_args args = { 0 };
	struct mrg_descriptor desc;
	struct mrg_error error;
	int ret;

	if (args_parse(&command, argc, argv, &args))
		return EXIT_FAILED;
	ret = read_descriptor(args.file, &desc, &error);
	if (ret) {
		fail_print(&error);
		return ret;
	}
	ret = args.output.json ? print_json(&desc) : print_text(&desc, &args);
	mrg_descriptor_release(&desc);
	return ret;
}
