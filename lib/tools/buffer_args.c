/* SPDX-License-Identifier: MIT */
#include "tools/args.h"
#include "tools/buffer_args.h"

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
		args->iova = args_size(state, "--iova", arg);
		args->has_iova = true;
		return 0;
	case KEY_OFFSET:
		args->offset = args_size(state, "--offset", arg);
		return 0;
	case KEY_LENGTH:
		args->length = args_between(state, "--length", arg, 1, UINT64_MAX);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp buffer_argp = {
	.options = options,
	.parser = parse_option,
};
