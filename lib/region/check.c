/* SPDX-License-Identifier: MIT */
/*
 * Faults of the arguments that the kernel would answer with EINVAL only.  They are
 * found before the kernel is asked.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/opts.h"
#include "explain/refusal.h"
#include "model/model.h"
#include "region/request.h"

int region_check_opts(struct region_request *req, const struct mrg_reg_opts *opts)
{
	const struct mrg_reg_opts *o = &req->opts;
	uint64_t owner = req->ctx->error_owner;
	static const char remedy[] =
		"Zero the structure, set its size, and use flags of this library's header.";

	if (base_opts_copy(&req->opts, sizeof(req->opts), opts) ||
	    (o->flags & ~MRG_REG_IOVA_EQUAL) || o->reserved)
		return base_fail(owner, -EINVAL, "check options", remedy,
				 "The options hold an unknown flag or field.");
	if ((o->max_page_shift && !model_shift_valid(o->max_page_shift)) ||
	    o->strategy > MRG_STRATEGY_REBASE)
		return base_fail(owner, -EINVAL, "check options", remedy,
				 "Page shift %u is not from %d to %d, or there is no strategy %u.",
				 o->max_page_shift, MRG_MIN_PAGE_SHIFT, MRG_MAX_PAGE_SHIFT,
				 (unsigned int)o->strategy);
	if (o->strategy == MRG_STRATEGY_REBASE && (o->flags & MRG_REG_IOVA_EQUAL))
		return base_fail(
			owner, -EINVAL, "check options",
			"Use strategy split, or allow wire addresses that differ.",
			"Strategy rebase moves wire addresses, and MRG_REG_IOVA_EQUAL forbids that.");
	if (!o->max_page_shift)
		req->opts.max_page_shift = req->ctx->max_page_shift;
	return 0;
}

/* The kernel's ib_check_mr_access(). */
static int check_access(const struct region_request *req)
{
	const int remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	if ((req->access & remote) && !(req->access & IBV_ACCESS_LOCAL_WRITE))
		return base_fail(
			req->ctx->error_owner, -EINVAL, "check access",
			"Add IBV_ACCESS_LOCAL_WRITE.",
			"Access 0x%x lets peers write but not this side, which verbs refuses.",
			req->access);
	if (req->access & IBV_ACCESS_ZERO_BASED)
		return base_fail(
			req->ctx->error_owner, -EINVAL, "check access",
			"Give address 0 (with a DMA-BUF) for a zero-based MR.",
			"IBV_ACCESS_ZERO_BASED would contradict the addresses that are planned with.");
	return 0;
}

int region_check_range(const struct region_request *req)
{
	if (!req->length)
		return base_fail(req->ctx->error_owner, -EINVAL, "check range",
				 "Give a length of at least 1 byte.", "The range is empty.");
	if (req->addr > UINT64_MAX - (req->length - 1))
		return base_fail(req->ctx->error_owner, -ERANGE, "check range",
				 "Check address and length: no range can pass 2^64.",
				 "Address 0x%" PRIx64 " and length 0x%" PRIx64 " overflow.",
				 req->addr, req->length);
	return 0;
}

int region_check(struct region_request *req, const struct mrg_reg_opts *opts)
{
	int ret = region_check_opts(req, opts);

	if (!ret)
		ret = check_access(req);
	if (!ret)
		ret = region_check_range(req);
	return ret ? ret : region_device_get(req->ctx, req->pd->context, &req->device);
}

int mrg_dmabuf_offset(const struct mrg_dmabuf *buf, uint64_t addr, uint64_t *offset)
{
	uint64_t sum;

	if (buf->reserved0 || buf->reserved[0] || buf->reserved[1])
		return -EINVAL;
	if (addr < buf->base || __builtin_add_overflow(addr - buf->base, buf->offset, &sum))
		return -ERANGE;
	*offset = sum;
	return 0;
}

/* The kernel's own answer to a DMA-BUF that is too short is EINVAL as well. */
static int check_size(const struct region_request *req)
{
	const struct region_env *env = req->ctx->env;
	int64_t size = env->dmabuf_size(req->fd);
	struct explain_refusal words;

	if (size >= 0 && req->offset <= (uint64_t)size &&
	    req->length <= (uint64_t)size - req->offset)
		return 0;
	if (size != -EBADF && !env->is_dmabuf(req->fd))
		return base_fail(req->ctx->error_owner, -EMEDIUMTYPE, "check fd",
				 "Give the fd that the DMA-BUF export returned.",
				 "File descriptor %d is no DMA-BUF.", req->fd);
	if (size < 0)
		return base_fail(req->ctx->error_owner, (int)size, "check fd",
				 "Keep the fd open until the registration is made.",
				 "The size of file descriptor %d cannot be read: %s.", req->fd,
				 strerror((int)-size));
	explain_refusal_size((uint64_t)size, req->offset, req->length, &words);
	return base_fail(req->ctx->error_owner, -EINVAL, "check fd", words.remedy, "%s",
			 words.text);
}

/* uverbs' own rule for UVERBS_METHOD_REG_DMABUF_MR, with the host's page. */
static int check_page_offset(const struct region_request *req)
{
	uint64_t page = req->ctx->page_size;
	struct explain_refusal words;

	if (!((req->addr ^ req->offset) & (page - 1)))
		return 0;
	explain_refusal_page_offset(page, req->addr, req->offset, &words);
	return base_fail(req->ctx->error_owner, -EINVAL, "check offset", words.remedy, "%s",
			 words.text);
}

int region_check_dmabuf(struct region_request *req, const struct mrg_dmabuf *buf)
{
	int ret;

	ret = mrg_dmabuf_offset(buf, req->addr, &req->offset);
	if (ret == -EINVAL)
		return base_fail(req->ctx->error_owner, ret, "check options",
				 "Zero the structure before its fields are set.",
				 "A reserved word of struct mrg_dmabuf is not zero.");
	if (ret)
		return base_fail(req->ctx->error_owner, -ERANGE, "check range",
				 "Give the base of the allocation that was exported.",
				 "Address 0x%" PRIx64 " lies below the base 0x%" PRIx64
				 " of the DMA-BUF, or too far above it.",
				 req->addr, buf->base);
	ret = check_size(req);
	return ret ? ret : check_page_offset(req);
}
