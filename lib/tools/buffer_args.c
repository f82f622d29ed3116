/* SPDX-License-Identifier: MIT */
#include "tools/buffer_args.h"

#define AT(field) ARGS_AT(struct buffer_args, field)
const struct args_option buffer_options[] = {
	{ "dmabuf-from", "KIND:SPEC",
	  "Make a DMA-BUF: udmabuf:SIZE, or simgpu:SPEC on the test ground", ARGS_TEXT,
	  AT(dmabuf_from) },
	{ "importer", "DEVICE",
	  "Who maps it: an RDMA device (mlx5_0) or a PCI function (0000:01:00.0)", ARGS_TEXT,
	  AT(importer) },
	{ "iova", "ADDR",
	  "The MR's iova for the first byte of the range, normally its virtual address",
	  ARGS_NUMBER, AT(iova), .given = offsetof(struct buffer_args, has_iova) },
	{ "offset", "N", "First byte of the range (0)", ARGS_NUMBER, AT(offset) },
	{ "length", "N", "Bytes of the range (to the end)", ARGS_NUMBER, AT(length), .min = 1 },
	{ 0 },
};
