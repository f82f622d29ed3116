/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "kernelcode/kernelcode.h"

uint32_t kernelcode_sg_size;

/* The kernel's function for lists without a chain. */
void *kernelcode_sg_next(void *sg)
{
	uint64_t link;

	memcpy(&link, sg, sizeof(link));
	return link & KERNELCODE_SG_LAST ? NULL : (uint8_t *)sg + kernelcode_sg_size;
}
