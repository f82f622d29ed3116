/* SPDX-License-Identifier: MIT */
/*
 * Why a registration is refused, in words: said by the registration that failed
 * (lib/region) and by who is asked about one afterwards (explain.c).
 */
#ifndef HOST_REG_WORDS_H
#define HOST_REG_WORDS_H

#include "host/pin.h"

#define ENOTSUPP 524 /* the kernel's own, and it escapes */

/* As long as struct mrg_error has room for. */
struct host_reg_words {
	char text[256];
	char remedy[256];
};

/* What @facts say of a range that could not be pinned. */
void host_reg_words_pin(const struct host_pin_facts *facts, struct host_reg_words *words);

/* A DMA-BUF that ends before the range does. */
void host_reg_words_size(uint64_t size, uint64_t offset, uint64_t length,
			 struct host_reg_words *words);
/* Address and place in the DMA-BUF at different bytes of a page. */
void host_reg_words_page_offset(uint64_t page, uint64_t iova, uint64_t offset,
				struct host_reg_words *words);

enum host_reg_lack {
	LACK_PROVIDER, /* libibverbs' */
	LACK_KERNEL, /* RDMA core or driver */
	LACK_EITHER, /* only the provider was asked */
};
/* No DMA-BUF MRs on @device, as @answer (-errno) tells. */
void host_reg_words_support(enum host_reg_lack lack, const char *device, int answer,
			    struct host_reg_words *words);
/* The device takes DMA-BUFs, and got @code (-errno) for this one. */
void host_reg_words_exporter(int code, const char *device, struct host_reg_words *words);

#endif
