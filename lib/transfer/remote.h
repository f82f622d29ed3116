/* SPDX-License-Identifier: MIT */
/* A buffer of the peer. */
#ifndef TRANSFER_REMOTE_H
#define TRANSFER_REMOTE_H

#include <mrguard/transfer.h>

struct mrg_remote {
	uint64_t addr;
	uint64_t length;
	uint64_t generation;
	size_t count;
	struct mrg_desc_piece pieces[];
};

#endif
