/* SPDX-License-Identifier: MIT */
/*
 * Why a registration is refused, in words: for the registration that failed
 * (lib/region), and for mrg_explain() afterwards.
 */
#ifndef EXPLAIN_REFUSAL_H
#define EXPLAIN_REFUSAL_H

#include "explain/pin.h"

#define ENOTSUPP 524 /* the kernel's own, and it escapes */

/* As long as struct mrg_error has room for. */
struct explain_refusal {
	char text[256];
	char remedy[256];
};

/* What @facts say of a range that could not be pinned. */
void explain_refusal_pin(const struct explain_pin_facts *facts, struct explain_refusal *words);

/* The shared writable mapping of a file in @facts. */
void explain_refusal_file(const struct explain_pin_facts *facts, struct explain_refusal *words);

/* A DMA-BUF that ends before the range does. */
void explain_refusal_size(uint64_t size, uint64_t offset, uint64_t length,
			  struct explain_refusal *words);
/* Address and place in the DMA-BUF at different bytes of a page. */
void explain_refusal_page_offset(uint64_t page, uint64_t iova, uint64_t offset,
				 struct explain_refusal *words);

enum explain_lack {
	LACK_PROVIDER, /* libibverbs' */
	LACK_KERNEL, /* RDMA core or driver */
	LACK_EITHER, /* only the provider was asked */
};
/* No DMA-BUF MRs on @device, as @answer (-errno) tells. */
void explain_refusal_support(enum explain_lack lack, const char *device, int answer,
			     struct explain_refusal *words);
/* The device takes DMA-BUFs, and got @code (-errno) for this one. */
void explain_refusal_exporter(int code, const char *device, struct explain_refusal *words);

#endif
