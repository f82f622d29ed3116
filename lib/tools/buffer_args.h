/* SPDX-License-Identifier: MIT */
/* The options that name a buffer, an importer and a range of it. */
#ifndef TOOLS_BUFFER_ARGS_H
#define TOOLS_BUFFER_ARGS_H

#include "tools/args.h"

struct buffer_args {
	const char *dmabuf_from;
	const char *importer;
	bool has_iova;
	uint64_t iova;
	uint64_t offset;
	uint64_t length; /* 0 = to the end */
};

/* For ARGS_GROUP. */
extern const struct args_option buffer_options[];

#endif
