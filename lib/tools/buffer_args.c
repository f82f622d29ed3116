/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "tools/buffer_args.h"
#include "tools/parse.h"

enum { KEY_DMABUF_FROM = 0x200, KEY_IMPORTER, KEY_IOVA, KEY_OFFSET, KEY_LENGTH };

static const struct argp_option options[] = {
	{ "dmabuf-from", KEY_DMABUF_FROM, "KIND:SPEC", 0,
	  "Make a DMA-BUF: udmabuf:SIZE, or simgpu:SPEC on the test ground", 0 },
	{ "importer", KEY_IMPORTER, "DEVICE", 0,
	  "Who maps it: an RDMA device (mlx5_0) or a PCI function (0000:01:00.0)", 0 },
	{ "iova", KEY_IOVA, "ADDR", 0,
	  "The MR's iova for the first byte of the range, normally its virtual "
	  "address",
	  0 },
	{ "offset", KEY_OFFSET, "N", 0, "First byte of the range (0)", 0 },
	{ "length", KEY_LENGTH, "N", 0, "Bytes of the range (to the end)", 0 },
	{ 0 },
};

uint64_t arg_size(struct argp_state *state, const char *option, const char *arg)
{
	uint64_t value = 0;
	int ret = mrg_parse_size(arg, &value);

	if (ret == -ERANGE)
		argp_error(state, "%s: expected at most 64 bits, read \"%s\"", option, arg);
	else if (ret)
		argp_error(state,
			   "%s: expected a number such as 4096, 0x1000 or "
			   "4K, read \"%s\"",
			   option, arg);
	return value;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct buffer_args *args = state->input;

	switch (key) {
	case KEY_DMABUF_FROM:
		args->dmabuf_from = arg;
		return 0;
	case KEY_IMPORTER:
		args->importer = arg;
		return 0;
	case KEY_IOVA:
		args->iova = arg_size(state, "--iova", arg);
		args->has_iova = true;
		return 0;
	case KEY_OFFSET:
		args->offset = arg_size(state, "--offset", arg);
		return 0;
	case KEY_LENGTH:
		args->length = arg_size(state, "--length", arg);
		if (!args->length)
			argp_error(state, "--length: expected at least 1, read 0");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp buffer_argp = {
	.options = options,
	.parser = parse_option,
};
