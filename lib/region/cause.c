/* SPDX-License-Identifier: MIT */
/*
 * Why verbs refused a registration.  One errno stands for several causes; each
 * is looked for by its own evidence, and where none is found the message says
 * what was ruled out and names no cause.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "explain/refusal.h"
#include "region/request.h"

/* madvise() of a range in the middle of a VMA makes two more. */
#define VMAS_PER_MARK 2

struct failure {
	const struct region_request *req;
	const struct mrg_piece *piece;
	const struct host_limits *limits;
	size_t index;
	int code;
};

#define FAIL(f, ...)                                                                              \
	base_fail_piece((f)->req->ctx->error_owner, (f)->code, (int)(f)->index, "register piece", \
			__VA_ARGS__)

static const char *verb(const struct failure *f)
{
	return f->req->fd >= 0 ? "ibv_reg_dmabuf_mr" : "ibv_reg_mr";
}

static bool memlock_hit(const struct failure *f)
{
	const struct host_limits *limits = f->limits;

	return f->req->fd < 0 && f->code == -ENOMEM && limits->memlock_known && !limits->may_lock &&
	       limits->memlock != UINT64_MAX &&
	       (limits->pinned > limits->memlock ||
		f->piece->length > limits->memlock - limits->pinned);
}

static bool vmas_hit(const struct failure *f)
{
	return f->limits->vmas_known && f->limits->vmas + VMAS_PER_MARK > f->limits->vma_limit;
}

bool region_limit_hit(const struct region_request *req, const struct mrg_piece *piece, int code,
		      const struct host_limits *limits)
{
	const struct failure f = { .req = req, .piece = piece, .limits = limits, .code = code };

	return memlock_hit(&f) || vmas_hit(&f);
}

static int say_memlock(const struct failure *f)
{
	return FAIL(
		f,
		"Raise memlock: ulimit -l, LimitMEMLOCK= of the unit, --ulimit memlock=-1 of the container.",
		"The locked-memory limit is reached: %" PRIu64
		" bytes are pinned, this MR needs %" PRIu64 " more, and the limit is %" PRIu64
		". A buffer counts once for each device that it is registered on.",
		f->limits->pinned, f->piece->length, f->limits->memlock);
}

static int say_vmas(const struct failure *f)
{
	return FAIL(
		f,
		"Raise vm.max_map_count, or find with `mrguard vma self` what cuts the mappings.",
		"The VMA limit is reached: the process has %" PRIu64 " of %" PRIu64
		" (vm.max_map_count).",
		f->limits->vmas, f->limits->vma_limit);
}

static int say_words(const struct failure *f, const struct explain_refusal *words)
{
	return FAIL(f, words->remedy, "%s", words->text);
}

/*
 * What drivers and /proc tell of the range.  Drivers come first: memory of a
 * GPU has no mapping, one without access, or one of a device, and none of these
 * says what it is.
 */
static void read_range(const struct failure *f, struct explain_pin_facts *facts)
{
	const int write = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
	uint64_t start = f->req->addr + f->piece->offset;
	const struct region_env *env = f->req->ctx->env;

	if (explain_pin_read(env->proc, "self", start, f->piece->length, f->req->access & write,
			     facts))
		*facts = (struct explain_pin_facts){ .addr = start,
						     .length = f->piece->length,
						     .fault = PIN_UNREADABLE };
	if (env->ask_drivers)
		env->ask_drivers(facts);
}

/* The range's own faults, which the kernel reports as EFAULT, peermem also as
 * EINVAL, libibverbs' marking as ENOMEM or EINVAL. */
static bool say_range(const struct failure *f)
{
	struct explain_pin_facts facts;
	struct explain_refusal words;

	read_range(f, &facts);
	if ((!facts.fault || facts.fault == PIN_UNREADABLE) && !explain_pin_on_gpu(&facts))
		return false;
	explain_refusal_pin(&facts, &words);
	say_words(f, &words);
	return true;
}

static int say_no_memory(const struct failure *f)
{
	const struct host_limits *limits = f->limits;
	struct explain_refusal words;
	char ruled_out[128] = "";

	if (memlock_hit(f))
		return say_memlock(f);
	if (vmas_hit(f))
		return say_vmas(f);
	if (f->req->fd < 0 && say_range(f))
		return f->code;
	if (limits->vmas_known && limits->memlock_known)
		snprintf(ruled_out, sizeof(ruled_out),
			 " The cause is neither the locked-memory limit nor the VMA limit (%" PRIu64
			 " of %" PRIu64 ").",
			 limits->vmas, limits->vma_limit);
	if (f->req->fd >= 0) {
		explain_refusal_exporter(f->code, f->req->device->name, &words);
		return FAIL(f, words.remedy,
			    "The call %s() fails with ENOMEM for %" PRIu64 " bytes. %s%s", verb(f),
			    f->piece->length, words.text, ruled_out);
	}
	return FAIL(
		f,
		"Look for leaked MRs (rdma res show mr), free memory, and IOMMU mode (iommu=pt).",
		"The call %s() fails for %" PRIu64
		" bytes (%s): the kernel is out of memory, the IOMMU of room, or the device of keys.%s",
		verb(f), f->piece->length, strerror(-f->code), ruled_out);
}

static int say_again(const struct failure *f)
{
	if (f->req->access & IBV_ACCESS_ON_DEMAND)
		return FAIL(
			f, "Wait until nothing unmaps or moves this memory any more.",
			"The call %s() fails with EAGAIN at every try: the range is invalidated faster than it is read.",
			verb(f));
	if (vmas_hit(f))
		return say_vmas(f);
	return FAIL(
		f,
		"See `mrguard vma self`, and do not repeat the call as it is: libibverbs would take the range for marked.",
		"The call %s() fails with EAGAIN, as madvise() does where marking pages against fork finds no VMA to spare, but the process has %" PRIu64
		" of %" PRIu64 ".",
		verb(f), f->limits->vmas, f->limits->vma_limit);
}

static int say_fault(const struct failure *f)
{
	struct explain_pin_facts facts;
	struct explain_refusal words;

	if (f->req->fd >= 0) {
		explain_refusal_exporter(f->code, f->req->device->name, &words);
	} else {
		read_range(f, &facts);
		explain_refusal_pin(&facts, &words);
	}
	return say_words(f, &words);
}

/* fd -1 gets EBADF where provider, kernel and driver know DMA-BUF MRs. */
static int provider_answer(const struct region_request *req)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = req->ctx->env->reg_dmabuf(req->pd, 0, (size_t)req->ctx->page_size, 0, -1,
				       IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		return -errno;
	req->ctx->env->dereg(mr);
	return 0;
}

static int say_unsupported(const struct failure *f)
{
	const char *device = f->req->device->name;
	int provider, kernel = -EBADF;
	struct explain_refusal words;

	if (f->req->fd < 0)
		return FAIL(f, "Drop optional access flags, such as on-demand.",
			    "Device %s does not support access 0x%x.", device, f->req->access);
	provider = provider_answer(f->req);
	if (provider != -EBADF)
		kernel = f->req->ctx->env->kernel_probe(f->req->pd);
	if (provider == -EBADF)
		explain_refusal_exporter(f->code, device, &words);
	else if (kernel == -EBADF)
		explain_refusal_support(LACK_PROVIDER, device, provider, &words);
	else
		explain_refusal_support(LACK_KERNEL, device, kernel, &words);
	return say_words(f, &words);
}

static int say_invalid(const struct failure *f)
{
	uint64_t start = f->req->addr + f->piece->offset, huge;
	struct explain_refusal words;

	if (f->req->fd >= 0 && !f->req->ctx->env->is_dmabuf(f->req->fd))
		return FAIL(f, "Give the fd that the DMA-BUF export returned.",
			    "File descriptor %d is no DMA-BUF.", f->req->fd);
	if (f->req->fd >= 0) {
		explain_refusal_exporter(f->code, f->req->device->name, &words);
		return FAIL(
			f, words.remedy,
			"The call %s() fails with EINVAL, although size, page offsets and access are right.",
			verb(f));
	}
	huge = region_huge_page(f->req->ctx, start, f->piece->length);
	if (huge && ((start | f->piece->length) & (huge - 1)))
		return FAIL(
			f,
			"Set RDMAV_HUGEPAGES_SAFE=1 before the process starts, align to huge pages, or do without fork protection.",
			"The range 0x%" PRIx64 " + 0x%" PRIx64 " cuts huge pages of %" PRIu64
			" bytes, which fork protection cannot mark in part.",
			start, f->piece->length, huge);
	if (say_range(f))
		return f->code;
	return FAIL(f, "Look in dmesg for the driver's reason.",
		    "The call %s() fails with EINVAL, although range and access are right.",
		    verb(f));
}

static int say_other(const struct failure *f)
{
	struct explain_refusal words;
	char name[64];

	if (f->code == -ENOTSUPP) {
		explain_refusal_exporter(f->code, f->req->device->name, &words);
		return say_words(f, &words);
	}
	snprintf(name, sizeof(name), "%s", strerror(-f->code));
	return FAIL(f, "Look in dmesg for the driver's reason.",
		    "The call %s() fails with %s (%d) for %" PRIu64 " bytes at offset %" PRIu64 ".",
		    verb(f), name, -f->code, f->piece->length, f->piece->offset);
}

static int explain(const struct failure *f)
{
	switch (-f->code) {
	case ENOMEM:
		return say_no_memory(f);
	case EAGAIN:
		return say_again(f);
	case EFAULT:
		return say_fault(f);
	case EINVAL:
		return say_invalid(f);
	case EOPNOTSUPP:
	case EPROTONOSUPPORT:
	case ENOSYS:
	case ENOTTY:
		return say_unsupported(f);
	default:
		return say_other(f);
	}
}

/* What the larger pieces met, before the smaller ones were tried. */
static void add_first_error(const struct failure *f)
{
	struct mrg_error error;
	size_t used;

	if (!f->req->first_error || mrg_private_error_read(f->req->ctx->error_owner, &error))
		return;
	used = strlen(error.cause);
	snprintf(error.cause + used, sizeof(error.cause) - used,
		 " The error is %s, after %s with larger pieces.", strerrorname_np(-f->code),
		 strerrorname_np(-f->req->first_error));
	mrg_private_error_keep(f->req->ctx->error_owner, &error);
}

int region_explain(const struct region_request *req, int code, size_t index,
		   const struct mrg_piece *piece, const struct host_limits *limits)
{
	const struct failure f = {
		.req = req, .piece = piece, .limits = limits, .index = index, .code = code
	};

	explain(&f);
	add_first_error(&f);
	return code;
}
