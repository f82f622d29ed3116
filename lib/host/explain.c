/* SPDX-License-Identifier: MIT */
/* Each cause is weighed by its own evidence; none is named for want of another. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/explain.h"
#include "host/vma_verdict.h"

/* Marking a range makes three VMAs of one; a thread's stack or a queue needs
 * one or two. */
#define VMAS_NEEDED 2
/* What is left after a failure need not be what was left before it. */
#define VMAS_CLOSE 64

/* A CQ of 4096 entries of 64 bytes; a QP's rings are of that order. */
#define QUEUE_BYTES (256u << 10)

struct evidence {
	struct mrg_explain_opts opts;
	struct process_facts process;
	uint64_t host_page;
};

#define NUMBER(value) (mrg_grouped(value).text)

/* "78.6 GiB" */
struct size_text {
	char text[32];
};

static struct size_text size_of(uint64_t bytes)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB",
					     "PiB", "EiB" };
	unsigned int unit = 0;
	double value = (double)bytes;
	struct size_text out;

	for (; value >= 1024 && unit < 6; unit++)
		value /= 1024;
	snprintf(out.text, sizeof(out.text), "%.*f %s",
		 value == (double)(uint64_t)value ? 0 : 1, value, units[unit]);
	return out;
}
#define SIZE(bytes) (size_of(bytes).text)

__attribute__((format(printf, 4, 5)))
static void say(struct mrg_finding *finding, enum mrg_likelihood likelihood,
		const char *remedy, const char *format, ...)
{
	va_list args;

	finding->likelihood = likelihood;
	va_start(args, format);
	vsnprintf(finding->text, sizeof(finding->text), format, args);
	va_end(args);
	snprintf(finding->remedy, sizeof(finding->remedy), "%s",
		 likelihood == MRG_IS_NOT ? "" : remedy);
}

static bool registers(const struct evidence *evidence)
{
	return evidence->opts.call == MRG_CALL_REG_MR ||
	       evidence->opts.call == MRG_CALL_REG_DMABUF_MR;
}

static bool pins(const struct evidence *evidence)
{
	return evidence->opts.call == MRG_CALL_REG_MR ||
	       evidence->opts.call == MRG_CALL_CREATE_QP ||
	       evidence->opts.call == MRG_CALL_CREATE_CQ;
}

static void weigh_vma_limit(const struct evidence *evidence,
			    struct mrg_finding *finding)
{
	static const char remedy[] =
		"See what holds them with mrguard vma; unmap it, raise vm.max_map_count, or register from a pool (mrg_pool(3)).";
	const struct process_facts *process = &evidence->process;
	enum mrg_likelihood likelihood = MRG_IS_NOT;

	if (evidence->opts.error != ENOMEM && evidence->opts.error != EAGAIN) {
		say(finding, MRG_IS_NOT, "", "The VMA limit gives ENOMEM, or EAGAIN from madvise.");
		return;
	}
	if (evidence->opts.call == MRG_CALL_REG_DMABUF_MR) {
		say(finding, MRG_IS_NOT, "", "Registering a DMA-BUF takes no VMA.");
		return;
	}
	if (!process->vmas_known) {
		say(finding, MRG_NOT_SEEN, remedy, "The process's maps cannot be read.");
		return;
	}
	if (process->vmas + VMAS_NEEDED > process->vma_limit)
		likelihood = MRG_IS;
	else if (process->vmas + VMAS_CLOSE > process->vma_limit)
		likelihood = MRG_MAY_BE;
	say(finding, likelihood, remedy, "The process holds %s of %s VMAs (vm.max_map_count)%s.",
	    NUMBER(process->vmas), NUMBER(process->vma_limit),
	    likelihood == MRG_IS_NOT ? ": the limit is not near" : "");
}

static const char memlock_remedy[] =
	"Raise it for that process: LimitMEMLOCK=infinity of its unit, --ulimit memlock=-1 of its container, limits.conf for logins; ulimit -l of another shell does not count.";

/* A queue's size is not known here, its order is. */
static void weigh_queue_memory(const struct process_facts *process,
			       struct mrg_finding *finding)
{
	uint64_t left = process->memlock > process->pinned ?
		process->memlock - process->pinned : 0;

	say(finding, left < QUEUE_BYTES ? MRG_IS : MRG_IS_NOT, memlock_remedy,
	    "Of %s locked memory %s are left; one queue takes up to %s.",
	    SIZE(process->memlock), SIZE(left), SIZE(QUEUE_BYTES));
}

static void weigh_range_memory(const struct evidence *evidence,
			       struct mrg_finding *finding)
{
	const struct process_facts *process = &evidence->process;
	uint64_t devices = evidence->opts.devices;
	uint64_t need = evidence->opts.length * devices;
	bool over = process->pinned > process->memlock ||
		    need > process->memlock - process->pinned;

	if (!evidence->opts.length) {
		say(finding, MRG_NOT_SEEN, memlock_remedy,
		    "%s are pinned, the limit is %s; what the buffer adds is not known.",
		    SIZE(process->pinned), SIZE(process->memlock));
		return;
	}
	say(finding, over ? MRG_IS : MRG_IS_NOT, memlock_remedy,
	    "%s pinned and %s on %" PRIu64 " device%s make %s; the process's limit is %s.",
	    SIZE(process->pinned), SIZE(evidence->opts.length), devices,
	    devices == 1 ? "" : "s", SIZE(process->pinned + need),
	    SIZE(process->memlock));
}

static void weigh_memlock(const struct evidence *evidence,
			  struct mrg_finding *finding)
{
	const struct process_facts *process = &evidence->process;

	if (evidence->opts.error != ENOMEM)
		say(finding, MRG_IS_NOT, "", "The locked-memory limit gives ENOMEM.");
	else if (!pins(evidence))
		say(finding, MRG_IS_NOT, "", "%s locks no memory.",
		    mrg_call_name(evidence->opts.call));
	else if (!process->memlock_known)
		say(finding, MRG_NOT_SEEN, memlock_remedy, "The process's limits cannot be read.");
	else if (process->memlock == UNLIMITED)
		say(finding, MRG_IS_NOT, "", "The process's locked memory is unlimited.");
	else if (process->may_lock)
		say(finding, MRG_IS_NOT, "", "The process has CAP_IPC_LOCK, so its limit of %s is not applied.",
		    SIZE(process->memlock));
	else if (evidence->opts.call == MRG_CALL_REG_MR)
		weigh_range_memory(evidence, finding);
	else
		weigh_queue_memory(process, finding);
}

static void weigh_mr_size(const struct evidence *evidence,
			  struct mrg_finding *finding)
{
	static const char remedy[] =
		"Register through mrg_reg(3), which makes as many MRs as it takes, or split the buffer.";
	uint64_t limit = evidence->opts.max_mr_size, length = evidence->opts.length;
	int error = evidence->opts.error;

	if (!registers(evidence))
		say(finding, MRG_IS_NOT, "", "%s makes no MR.",
		    mrg_call_name(evidence->opts.call));
	else if (error != ENOMEM && error != EINVAL && error != EIO)
		say(finding, MRG_IS_NOT, "", "Drivers refuse too long an MR with EINVAL, ENOMEM or EIO.");
	else if (!limit || !length)
		say(finding, MRG_NOT_SEEN, remedy, "%s",
		    limit ? "The buffer's length is not given." :
			    "The device's largest MR is not known.");
	else
		say(finding, length > limit ? MRG_IS : MRG_IS_NOT, remedy,
		    "The buffer has %s (%s), the device's largest MR %s: it takes %" PRIu64 " MR%s.",
		    SIZE(length), NUMBER(length), SIZE(limit),
		    (length - 1) / limit + 1, length > limit ? "s" : "");
}

static void weigh_keys(const struct evidence *evidence,
		       struct mrg_finding *finding)
{
	static const char remedy[] =
		"Look for leaked MRs with `rdma resource show mr` and for the driver's word in dmesg; register fewer, larger buffers.";
	uint64_t mrs = evidence->opts.mrs, max = evidence->opts.max_mrs;

	if (!registers(evidence))
		say(finding, MRG_IS_NOT, "", "%s takes no MR key.",
		    mrg_call_name(evidence->opts.call));
	else if (evidence->opts.error != ENOMEM && evidence->opts.error != ENOSPC)
		say(finding, MRG_IS_NOT, "", "A device without keys gives ENOMEM.");
	else if (!max)
		say(finding, MRG_NOT_SEEN, remedy, "How many MRs the device has, and can have, is not known.");
	else
		say(finding, mrs >= max ? MRG_IS : MRG_IS_NOT, remedy,
		    "The device has %s of %s MRs.", NUMBER(mrs), NUMBER(max));
}

static void weigh_hole(const struct evidence *evidence,
		       struct mrg_finding *finding)
{
	static const char remedy[] = "Register only mapped memory, and deregister before it is unmapped.";
	const struct process_facts *process = &evidence->process;
	int error = evidence->opts.error;

	if (evidence->opts.call != MRG_CALL_REG_MR &&
	    evidence->opts.call != MRG_CALL_MADVISE)
		say(finding, MRG_IS_NOT, "", "%s is given no address range of the process.",
		    mrg_call_name(evidence->opts.call));
	else if (error != EFAULT && error != ENOMEM)
		say(finding, MRG_IS_NOT, "", "A hole gives EFAULT, or ENOMEM where fork protection marks pages.");
	else if (!process->range_known)
		say(finding, MRG_NOT_SEEN, remedy, "%s",
		    evidence->opts.addr && evidence->opts.length ?
		    "The process's maps cannot be read." :
		    "The range is not given.");
	else if (process->has_hole)
		say(finding, MRG_IS, remedy, "Address 0x%" PRIx64 " in the range is not mapped.",
		    process->unmapped);
	else
		say(finding, MRG_IS_NOT, "", "All of the range is mapped.");
}

static uint64_t huge_page(const struct evidence *evidence)
{
	uint64_t size = evidence->opts.page_size ? evidence->opts.page_size :
						   evidence->process.page_size;

	return size > evidence->host_page ? size : 0;
}

static void weigh_huge_range(const struct evidence *evidence, uint64_t huge,
			     struct mrg_finding *finding)
{
	uint64_t start = evidence->opts.addr, limit = evidence->opts.max_mr_size;

	if (limit && limit < huge)
		say(finding, MRG_IS, "Use smaller huge pages, or a device or setting with a larger limit.",
		    "The largest MR of %s is smaller than the huge page of %s: no MR can end at a huge page's border.",
		    SIZE(limit), SIZE(huge));
	else if ((start | evidence->opts.length) & (huge - 1))
		say(finding, MRG_IS, "Align buffers and their parts to the huge page, set RDMAV_HUGEPAGES_SAFE=1 before the process starts, or do without fork protection.",
		    "The range 0x%" PRIx64 " + %s cuts huge pages of %s, which fork protection cannot mark in part.",
		    start, NUMBER(evidence->opts.length), SIZE(huge));
	else
		say(finding, MRG_IS_NOT, "", "The range begins and ends at borders of its huge pages (%s).",
		    SIZE(huge));
}

static void weigh_huge_page(const struct evidence *evidence,
			    struct mrg_finding *finding)
{
	uint64_t huge = huge_page(evidence);

	if (evidence->opts.call != MRG_CALL_REG_MR &&
	    evidence->opts.call != MRG_CALL_MADVISE)
		say(finding, MRG_IS_NOT, "", "%s marks no pages.",
		    mrg_call_name(evidence->opts.call));
	else if (evidence->opts.error != EINVAL)
		say(finding, MRG_IS_NOT, "", "A cut huge page gives EINVAL.");
	else if (!evidence->process.range_known && !huge)
		say(finding, MRG_NOT_SEEN, "Give address and length.", "%s",
		    evidence->opts.addr && evidence->opts.length ?
		    "The process's smaps cannot be read." :
		    "The range is not given.");
	else if (!huge)
		say(finding, MRG_IS_NOT, "", "The range holds no huge pages.");
	else
		weigh_huge_range(evidence, huge, finding);
}

static void (*const weigh[MRG_CAUSES])(const struct evidence *evidence,
				       struct mrg_finding *finding) = {
	[MRG_CAUSE_VMA_LIMIT] = weigh_vma_limit,
	[MRG_CAUSE_MEMLOCK] = weigh_memlock,
	[MRG_CAUSE_MR_SIZE] = weigh_mr_size,
	[MRG_CAUSE_KEYS] = weigh_keys,
	[MRG_CAUSE_HOLE] = weigh_hole,
	[MRG_CAUSE_HUGE_PAGE] = weigh_huge_page,
};

static int by_likelihood(const void *a, const void *b)
{
	const struct mrg_finding *x = a, *y = b;

	if (x->likelihood != y->likelihood)
		return x->likelihood < y->likelihood ? -1 : 1;
	return x->cause < y->cause ? -1 : x->cause > y->cause;
}

static int count_of(const struct mrg_explanation *explanation,
		    enum mrg_likelihood likelihood)
{
	int count = 0;

	for (int i = 0; i < MRG_CAUSES; i++)
		count += explanation->findings[i].likelihood == likelihood;
	return count;
}

/* "memlock, device keys" */
static void list_causes(const struct mrg_explanation *explanation,
			enum mrg_likelihood from, enum mrg_likelihood to,
			char *out, size_t size)
{
	size_t used = 0;

	out[0] = '\0';
	for (int i = 0; i < MRG_CAUSES && used < size; i++) {
		const struct mrg_finding *finding = &explanation->findings[i];

		if (finding->likelihood < from || finding->likelihood > to)
			continue;
		used += (size_t)snprintf(out + used, size - used, "%s%s",
					 used ? ", " : "",
					 mrg_cause_name(finding->cause));
	}
}

static void summarize(const struct mrg_explain_opts *opts,
		      struct mrg_explanation *out)
{
	int certain = count_of(out, MRG_IS);
	int open = count_of(out, MRG_MAY_BE) + count_of(out, MRG_NOT_SEEN);
	char name[64], causes[128];
	int len;

	snprintf(name, sizeof(name), "%s", strerror(opts->error));
	len = snprintf(out->summary, sizeof(out->summary), "%s, %s: ",
		       mrg_call_name(opts->call), name);
	if (certain == 1) {
		snprintf(out->summary + len, sizeof(out->summary) - (size_t)len,
			 "%s. %s", mrg_cause_name(out->findings[0].cause),
			 out->findings[0].text);
		return;
	}
	list_causes(out, certain ? MRG_IS : MRG_MAY_BE,
		    certain ? MRG_IS : MRG_NOT_SEEN, causes, sizeof(causes));
	if (certain)
		snprintf(out->summary + len, sizeof(out->summary) - (size_t)len,
			 "each of these stands in the way by itself: %s.", causes);
	else if (open)
		snprintf(out->summary + len, sizeof(out->summary) - (size_t)len,
			 "no cause is proven; not ruled out: %s.", causes);
	else
		snprintf(out->summary + len, sizeof(out->summary) - (size_t)len,
			 "none of the known causes; look in dmesg for the driver's word.");
}

static int take_opts(const struct mrg_explain_opts *from,
		     struct mrg_explain_opts *to)
{
	if (!from || from->size < sizeof(from->size))
		return -EINVAL;
	for (size_t i = sizeof(*to); i < from->size; i++)
		if (((const char *)from)[i])
			return -EINVAL;
	memset(to, 0, sizeof(*to));
	memcpy(to, from, from->size < sizeof(*to) ? from->size : sizeof(*to));
	if (to->error <= 0 || to->call > MRG_CALL_MADVISE || to->pid < 0 ||
	    to->length > UINT64_MAX - to->addr)
		return -EINVAL;
	if (!to->devices)
		to->devices = 1;
	return to->length > UINT64_MAX / 2 / to->devices ? -EINVAL : 0;
}

int mrg_explain(const struct mrg_explain_opts *given,
		struct mrg_explanation *out)
{
	struct evidence evidence = {
		.host_page = (uint64_t)sysconf(_SC_PAGESIZE),
	};
	int ret = take_opts(given, &evidence.opts);

	if (!ret)
		ret = explain_read_process(&evidence.opts, &evidence.process);
	if (ret)
		return ret;
	explain_ask_device(&evidence.opts);
	for (int i = 0; i < MRG_CAUSES; i++) {
		out->findings[i].cause = (enum mrg_cause)i;
		weigh[i](&evidence, &out->findings[i]);
	}
	qsort(out->findings, MRG_CAUSES, sizeof(out->findings[0]), by_likelihood);
	summarize(&evidence.opts, out);
	return 0;
}

const char *mrg_cause_name(enum mrg_cause cause)
{
	static const char *const names[MRG_CAUSES] = {
		[MRG_CAUSE_VMA_LIMIT] = "VMA limit",
		[MRG_CAUSE_MEMLOCK] = "memlock",
		[MRG_CAUSE_MR_SIZE] = "MR size",
		[MRG_CAUSE_KEYS] = "device keys",
		[MRG_CAUSE_HOLE] = "hole",
		[MRG_CAUSE_HUGE_PAGE] = "huge pages",
	};

	return cause < MRG_CAUSES ? names[cause] : "unknown";
}

const char *mrg_likelihood_name(enum mrg_likelihood likelihood)
{
	switch (likelihood) {
	case MRG_IS: return "this";
	case MRG_MAY_BE: return "may be";
	case MRG_NOT_SEEN: return "not seen";
	case MRG_IS_NOT: return "not this";
	}
	return "unknown";
}

static const char *const call_names[] = {
	[MRG_CALL_REG_MR] = "ibv_reg_mr",
	[MRG_CALL_REG_DMABUF_MR] = "ibv_reg_dmabuf_mr",
	[MRG_CALL_CREATE_QP] = "ibv_create_qp",
	[MRG_CALL_CREATE_CQ] = "ibv_create_cq",
	[MRG_CALL_MMAP] = "mmap",
	[MRG_CALL_MADVISE] = "madvise",
};
#define CALLS (sizeof(call_names) / sizeof(call_names[0]))

const char *mrg_call_name(enum mrg_call call)
{
	return call < CALLS ? call_names[call] : "unknown";
}

int mrg_call_parse(const char *name, enum mrg_call *call)
{
	for (size_t i = 0; i < CALLS; i++) {
		if (strcmp(name, call_names[i]))
			continue;
		*call = (enum mrg_call)i;
		return 0;
	}
	return -EINVAL;
}
