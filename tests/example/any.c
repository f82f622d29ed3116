/* SPDX-License-Identifier: MIT */
/* any DEVICE ADDRESS LENGTH: registers that memory of this process and prints its keys. */
#include <stdio.h>
#include <stdlib.h>
#include <infiniband/verbs.h>
#include <mrguard/mrguard.h>
int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *device = argc == 4 ? ibv_open_device(list[atoi(argv[1])]) : NULL;
	struct ibv_pd *pd = device ? ibv_alloc_pd(device) : NULL;
	uint64_t addr = argc == 4 ? strtoull(argv[2], NULL, 0) : 0;
	uint64_t length = argc == 4 ? strtoull(argv[3], NULL, 0) : 0;
	struct mrg_error error = { .cause = "usage: any DEVICE_NUMBER ADDRESS LENGTH" };
	struct mrg_ctx *ctx;
	struct mrg_seg seg[64];
	struct mrg_mr *mr;
	if (!pd || mrg_open(&ctx, device, NULL) ||
	    (mrg_reg_any(ctx, pd, (void *)addr, length, IBV_ACCESS_LOCAL_WRITE, NULL, &mr) &&
	     !mrg_last_error(ctx, &error)))
		return fprintf(stderr, "%s %s\n", error.cause, error.remedy), 1;
	for (ssize_t i = 0, n = mrg_keys(mr, addr, length, seg, 64); i < n && n <= 64; i++)
		printf("%#lx bytes at %#lx, lkey %#x\n", seg[i].length, seg[i].wire, seg[i].lkey);
	return 0;
}
