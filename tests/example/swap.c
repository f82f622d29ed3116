/* SPDX-License-Identifier: MIT */
/*
 * How an engine swaps its call.  swap DEVICE [DMABUF_FD LENGTH] registers a
 * DMA-BUF, else 64 MiB of memory, and prints what a peer must know.
 *
 *	cc swap.c $(pkg-config --cflags --libs mrguard) -libverbs
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>
#include <mrguard/mrguard.h>

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return ibv_open_device(list[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	struct ibv_context *device = argc > 1 ? open_device(argv[1]) : NULL;
	struct ibv_pd *pd = device ? ibv_alloc_pd(device) : NULL;
	uint64_t length = argc > 3 ? strtoull(argv[3], NULL, 0) : 64 << 20;
	char *base = argc > 3 ? (char *)0x700000000000 : calloc(1, length);
	struct mrg_dmabuf buf = { .base = (uintptr_t)base };
	struct mrg_error error;
	struct mrg_seg segs[64];
	struct mrg_ctx *ctx;
	struct mrg_mr *mr;
	int ret;

	if (!pd || mrg_open(&ctx, device, NULL))
		errx(2, "usage: swap DEVICE [DMABUF_FD LENGTH], DEVICE as `mrguard info' lists it");
	if (argc > 3) { /* was: mr = ibv_reg_dmabuf_mr(pd, 0, length, addr, fd, ACCESS) */
		buf.fd = atoi(argv[2]);
		ret = mrg_reg_dmabuf(ctx, pd, &buf, buf.base, length, ACCESS, NULL, &mr);
	} else { /* was: mr = ibv_reg_mr(pd, base, length, ACCESS) */
		ret = mrg_reg(ctx, pd, base, length, ACCESS, NULL, &mr);
	}
	if (ret && !mrg_last_error(ctx, &error))
		fprintf(stderr, "%s: %s %s\n", error.stage, error.cause, error.remedy);
	if (ret)
		return 1;
	/* was: (base, length, mr->rkey) to the peer; now so much for each part */
	for (ssize_t i = 0, n = mrg_keys(mr, buf.base, length, segs, 64); i < n && n <= 64; i++)
		printf("0x%llx bytes at wire address 0x%llx, rkey 0x%x\n",
		       (unsigned long long)segs[i].length, (unsigned long long)segs[i].wire,
		       segs[i].rkey);
	mrg_dereg(mr); /* was: ibv_dereg_mr(mr) */
	mrg_close(ctx);
	return 0;
}
