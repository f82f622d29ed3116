/* SPDX-License-Identifier: MIT */
/* One call for any pointer: what the memory is, and its parts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/opts.h"
#include "gpu/driver.h"
#include "region/any.h"
#include "region/request.h"

struct part_list {
	struct region_any_part *parts;
	size_t count;
	size_t room;
};

static int out_of_memory(const struct region_any *any)
{
	return base_fail(any->ctx->error_owner, -ENOMEM, "register",
			 "Free memory, or raise its limit.",
			 "There is no memory for the parts of a range.");
}

static int add_part(struct region_any *any, struct part_list *list,
		    const struct region_any_part *part)
{
	struct region_any_part *more =
		base_grow(list->parts, &list->room, list->count, sizeof(*more));

	if (!more)
		return out_of_memory(any);
	list->parts = more;
	list->parts[list->count++] = *part;
	return 0;
}

static int own_gpu(struct region_any *any)
{
	struct mrg_ctx *ctx = any->ctx;
	int ret = 0;

	if (any->opts.gpu) {
		any->gpu = any->opts.gpu;
		return 0;
	}
	pthread_mutex_lock(&ctx->lock);
	if (!ctx->gpu)
		ret = mrg_gpu_open(&ctx->gpu, NULL);
	any->gpu = ctx->gpu;
	pthread_mutex_unlock(&ctx->lock);
	return ret ? out_of_memory(any) : 0;
}

static bool is_coherent(const struct region_any *any, const struct mrg_mem *mem, int device)
{
	const struct gpu_driver *driver;

	if (mem->kind < MRG_MEM_CUDA || mem->kind >= MRG_MEM_HIP || device < 0)
		return false;
	driver = gpu_peek(any->gpu, GPU_CUDA);
	return driver && gpu_cuda_attribute(driver, device, CUDA_DEV_HOST_PAGE_TABLES) > 0;
}

static struct region_any_part part_on(const struct region_any *any, const struct mrg_mem *mem,
				      int device, uint64_t addr, uint64_t end)
{
	return (struct region_any_part){ .addr = addr,
					 .length = end - addr,
					 .kind = mem->kind,
					 .on_gpu = mem->kind >= MRG_MEM_CUDA && device >= 0,
					 .coherent = is_coherent(any, mem, device) };
}

/* Chunks on one device follow one another in a part; the last part reaches to the
 * range's end, so that a hole is met by the export. */
static int split_chunks(struct region_any *any, const struct mrg_mem *mem, uint64_t addr,
			uint64_t length, struct part_list *list)
{
	size_t first = 0;
	int ret = 0;

	for (size_t i = 1; i <= mem->count && !ret; i++) {
		uint64_t end = i < mem->count ? mem->chunks[i].addr : addr + length;
		struct region_any_part part;

		if (i < mem->count && mem->chunks[i].device == mem->chunks[first].device)
			continue;
		part = part_on(any, mem, mem->chunks[first].device, addr, end);
		ret = add_part(any, list, &part);
		length -= end - addr;
		addr = end;
		first = i;
	}
	return ret;
}

/* Where the process has no GPU driver in it, all memory is the host's. */
static bool is_plain(const struct region_any *any)
{
	return !any->opts.ways && !gpu_peek(any->gpu, GPU_CUDA) && !gpu_peek(any->gpu, GPU_HIP);
}

static int split(struct region_any *any, uint64_t addr, uint64_t length, struct part_list *list)
{
	struct region_any_part part = { .addr = addr, .length = length, .kind = MRG_MEM_HOST };
	struct mrg_error error;
	struct mrg_mem mem;
	int ret;

	if (is_plain(any))
		return add_part(any, list, &part);
	ret = mrg_gpu_classify(any->gpu, addr, length, &mem);
	if (ret) {
		if (!mrg_gpu_last_error(any->gpu, &error))
			mrg_private_error_keep(any->ctx->error_owner, &error);
		return ret;
	}
	if (mem.count) {
		ret = split_chunks(any, &mem, addr, length, list);
	} else {
		part = part_on(any, &mem, mem.device, addr, addr + length);
		ret = add_part(any, list, &part);
	}
	mrg_mem_release(&mem);
	return ret;
}

static int reg_list(struct region_any *any, const struct part_list *list, struct mrg_mr **mr)
{
	struct mrg_mr **made = calloc(list->count, sizeof(*made));
	size_t count = 0;
	int ret = made ? 0 : out_of_memory(any);

	while (!ret && count < list->count) {
		ret = region_any_part_reg(any, &list->parts[count], &made[count]);
		count += !ret;
	}
	if (!ret && count == 1)
		*mr = made[0];
	else if (!ret)
		ret = region_join(any->ctx, made, count, mr);
	while (ret && count)
		region_mr_undo(made[--count]);
	free(made);
	return ret;
}

static int check(struct region_any *any, const struct mrg_any_opts *opts, uint64_t addr,
		 uint64_t length)
{
	struct region_request req = { .ctx = any->ctx,
				      .pd = any->pd,
				      .addr = addr,
				      .length = length,
				      .access = any->access };
	int ret;

	if (base_opts_copy(&any->opts, sizeof(any->opts), opts) || any->opts.flags)
		return base_fail(
			any->ctx->error_owner, -EINVAL, "check options",
			"Zero the structure, set its size, and use fields of this release.",
			"The options hold an unknown flag or field.");
	ret = region_check(&req, any->opts.reg);
	any->device = req.device;
	return ret;
}

int mrg_reg_any(struct mrg_ctx *ctx, struct ibv_pd *pd, void *ptr, size_t length, int access,
		const struct mrg_any_opts *opts, struct mrg_mr **mr)
{
	struct region_any any = { .ctx = ctx,
				  .pd = pd,
				  .access = access & ~IBV_ACCESS_ON_DEMAND,
				  .on_demand = access & IBV_ACCESS_ON_DEMAND };
	struct part_list list = { 0 };
	int ret = check(&any, opts, (uintptr_t)ptr, length);

	if (!ret)
		ret = own_gpu(&any);
	if (!ret)
		ret = split(&any, (uintptr_t)ptr, length, &list);
	if (!ret)
		ret = reg_list(&any, &list, mr);
	free(list.parts);
	return ret;
}
