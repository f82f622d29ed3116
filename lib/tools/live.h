/* SPDX-License-Identifier: MIT */
/* A DMA-BUF made here, as one importer maps it. */
#ifndef TOOLS_LIVE_H
#define TOOLS_LIVE_H

#include "tools/buffer_args.h"
#include "tools/module.h"

struct live_buffer {
	int fd;
	uint64_t size;
	void *map; /* NULL where it is not mapped */
};

struct live {
	struct module module;
	struct live_buffer buffer;
	struct mrg_pci_addr importer;
	char rdma[64]; /* the RDMA device on it, "" where there is none */
	enum mrg_pick pick; /* whose function picks that device's pages */
	uint64_t max_mr_size; /* what that device reports, 0 if not known */
	uint64_t iova;
	uint64_t offset;
	uint64_t length;
	bool has_layout; /* not without the module */
	struct mrg_layout layout;
};

/**
 * live_open() - make the DMA-BUF, find the importer, and ask for the layout
 * @args: what to make; without an iova, the buffer's own mapping gives one
 * @entries: the scatter list as mapped, not joined; it always is where this
 *	kernel's walk looks at single entries
 * @live: OUT, to be released with live_close()
 * @error: OUT on failure
 *
 * Without the module this succeeds, and @has_layout is false.
 *
 * Return: 0 or -errno.
 */
int live_open(const struct buffer_args *args, bool entries, struct live *live,
	      struct mrg_error *error);
void live_close(struct live *live);

#endif
