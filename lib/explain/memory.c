/* SPDX-License-Identifier: MIT */
/* Causes in the process: its limits, and what lies in its range. */
#include <errno.h>
#include <inttypes.h>

#include "explain/explain.h"
#include "explain/refusal.h"

/* Marking a range makes three VMAs of one; a thread's stack or a queue needs
 * one or two. */
#define VMAS_NEEDED 2
/* What is left after a failure need not be what was left before it. */
#define VMAS_CLOSE 64

/* A CQ of 4096 entries of 64 bytes; a QP's rings are of that order. */
#define QUEUE_BYTES (256u << 10)
/* Rings of the largest sizes, and what a library sets up beside them. */
#define QUEUE_BYTES_MAX (64u << 20)

static bool pins(const struct explain_evidence *evidence)
{
	return evidence->opts.call == MRG_CALL_REG_MR ||
	       evidence->opts.call == MRG_CALL_CREATE_QP ||
	       evidence->opts.call == MRG_CALL_CREATE_CQ;
}

void explain_vma_limit(const struct explain_evidence *evidence, struct mrg_finding *finding)
{
	static const char remedy[] =
		"See what holds them with mrguard vma; unmap it, raise vm.max_map_count, or register from a pool (mrg_pool(3)).";
	const struct host_limits *limits = &evidence->process.limits;
	enum mrg_likelihood likelihood = MRG_IS_NOT;

	if (evidence->opts.error != ENOMEM && evidence->opts.error != EAGAIN) {
		explain_rule_out(finding, "The VMA limit gives ENOMEM, or EAGAIN from madvise.");
		return;
	}
	if (evidence->opts.call == MRG_CALL_REG_DMABUF_MR) {
		explain_rule_out(finding, "Registering a DMA-BUF takes no VMA.");
		return;
	}
	if (!limits->vmas_known) {
		explain_say(finding, MRG_NOT_SEEN, remedy, "The process's maps cannot be read.");
		return;
	}
	if (limits->vmas + VMAS_NEEDED > limits->vma_limit)
		likelihood = MRG_IS;
	else if (limits->vmas + VMAS_CLOSE > limits->vma_limit)
		likelihood = MRG_MAY_BE;
	explain_say(finding, likelihood, remedy,
		    "The process holds %s of %s VMAs (vm.max_map_count)%s.", NUMBER(limits->vmas),
		    NUMBER(limits->vma_limit),
		    likelihood == MRG_IS_NOT ? ": the limit is not near" : "");
}

static const char memlock_remedy[] =
	"Raise it for that process: LimitMEMLOCK=infinity of its unit, --ulimit memlock=-1 of its container, limits.conf for logins; ulimit -l of another shell does not count.";

/* A queue's size is not known here, its order is. */
static void weigh_queue_memory(const struct host_limits *limits, struct mrg_finding *finding)
{
	uint64_t left = limits->memlock > limits->pinned ? limits->memlock - limits->pinned : 0;

	explain_say(
		finding,
		left < QUEUE_BYTES     ? MRG_IS :
		left < QUEUE_BYTES_MAX ? MRG_MAY_BE :
					 MRG_IS_NOT,
		memlock_remedy,
		"Of %s locked memory %s are left now; a set-up that fails gives its pins back, and one queue of %s takes up to %s.",
		SIZE(limits->memlock), SIZE(left), "4,096 entries", SIZE(QUEUE_BYTES));
}

static void weigh_range_memory(const struct explain_evidence *evidence, struct mrg_finding *finding)
{
	const struct host_limits *limits = &evidence->process.limits;
	uint64_t devices = evidence->opts.devices;
	uint64_t need = evidence->opts.length * devices;
	bool over = limits->pinned > limits->memlock || need > limits->memlock - limits->pinned;

	if (!evidence->opts.length) {
		explain_say(finding, MRG_NOT_SEEN, memlock_remedy,
			    "%s are pinned, the limit is %s; what the buffer adds is not known.",
			    SIZE(limits->pinned), SIZE(limits->memlock));
		return;
	}
	explain_say(finding, over ? MRG_IS : MRG_IS_NOT, memlock_remedy,
		    "%s pinned and %s on %" PRIu64 " device%s make %s; the process's limit is %s.",
		    SIZE(limits->pinned), SIZE(evidence->opts.length), devices,
		    devices == 1 ? "" : "s", SIZE(limits->pinned + need), SIZE(limits->memlock));
}

void explain_memlock(const struct explain_evidence *evidence, struct mrg_finding *finding)
{
	const struct host_limits *limits = &evidence->process.limits;

	if (evidence->opts.error != ENOMEM)
		explain_rule_out(finding, "The locked-memory limit gives ENOMEM.");
	else if (!pins(evidence))
		explain_rule_out(finding, "%s locks no memory.",
				 mrg_call_name(evidence->opts.call));
	else if (!limits->memlock_known)
		explain_say(finding, MRG_NOT_SEEN, memlock_remedy,
			    "The process's limits cannot be read.");
	else if (limits->memlock == UINT64_MAX)
		explain_rule_out(finding, "The process's locked memory is unlimited.");
	else if (limits->may_lock)
		explain_rule_out(finding,
				 "The process has CAP_IPC_LOCK, so its limit of %s is not applied.",
				 SIZE(limits->memlock));
	else if (evidence->opts.call == MRG_CALL_REG_MR)
		weigh_range_memory(evidence, finding);
	else
		weigh_queue_memory(limits, finding);
}

/* No line of maps tells a device pointer from an address that was freed. */
static bool may_be_device_pointer(const struct explain_pin_facts *pin)
{
	return pin->gpu_driver && pin->at == pin->addr &&
	       (pin->fault == PIN_UNMAPPED || pin->fault == PIN_NO_ACCESS);
}

void explain_hole(const struct explain_evidence *evidence, struct mrg_finding *finding)
{
	static const char mapped_remedy[] =
		"Register only mapped memory, and deregister before it is unmapped.";
	const struct explain_pin_facts *pin = &evidence->process.pin;
	int error = evidence->opts.error;
	struct explain_refusal words;

	explain_refusal_pin(pin, &words);
	if (!explain_takes_range(evidence))
		explain_rule_out(finding, "%s is given no address range of the process.",
				 mrg_call_name(evidence->opts.call));
	else if (error != EFAULT && error != ENOMEM)
		explain_rule_out(
			finding,
			"A hole gives EFAULT, or ENOMEM where fork protection marks pages.");
	else if (!evidence->process.range_known)
		explain_say(finding, MRG_NOT_SEEN, mapped_remedy, "%s", explain_no_range(evidence));
	else if (explain_pin_on_gpu(pin) || !pin->fault || pin->fault == PIN_DEVICE)
		explain_rule_out(finding, "%s",
				 explain_pin_on_gpu(pin) ?
					 "The range is on a GPU, where it needs no CPU mapping." :
					 "All of the range is mapped.");
	else if (pin->fault == PIN_READ_ONLY && error != EFAULT)
		explain_rule_out(
			finding,
			"All of the range is mapped; in part read-only, which gives EFAULT.");
	else if (pin->fault == PIN_READ_ONLY)
		explain_say(
			finding, MRG_MAY_BE, words.remedy,
			"Address 0x%" PRIx64
			" in the range is mapped read-only, which an access with writes does not take.",
			pin->at);
	else if (pin->fault == PIN_UNMAPPED && !pin->gpu_driver)
		explain_say(
			finding, MRG_IS, mapped_remedy,
			"Address 0x%" PRIx64
			" in the range is not mapped, and the process has no GPU driver that would know it.",
			pin->at);
	else
		explain_say(finding, may_be_device_pointer(pin) ? MRG_MAY_BE : MRG_IS, words.remedy,
			    "%s", words.text);
}

void explain_device_memory(const struct explain_evidence *evidence, struct mrg_finding *finding)
{
	const struct explain_pin_facts *pin = &evidence->process.pin;
	int error = evidence->opts.error;
	struct explain_refusal words;

	explain_refusal_pin(pin, &words);
	if (evidence->opts.call != MRG_CALL_REG_MR)
		explain_rule_out(finding, "%s pins no memory by its address.",
				 mrg_call_name(evidence->opts.call));
	else if (error != EFAULT && error != EINVAL && error != ENOMEM)
		explain_rule_out(
			finding,
			"Memory of a device gives EFAULT, from a peermem module also EINVAL or ENOMEM.");
	else if (!evidence->process.range_known)
		explain_say(finding, MRG_NOT_SEEN,
			    "Register GPU memory by mrg_gpu_export() and mrg_reg_dmabuf().", "%s",
			    explain_no_range(evidence));
	else if (explain_pin_on_gpu(pin) || pin->fault == PIN_DEVICE)
		explain_say(finding, MRG_IS, words.remedy, "%s", words.text);
	else if (may_be_device_pointer(pin))
		explain_say(
			finding, MRG_MAY_BE, words.remedy,
			"The process has a GPU driver loaded, and nothing is open to the CPU at 0x%" PRIx64
			", as with memory of cudaMalloc(); %s.",
			pin->at,
			pin->peermem == PEERMEM_ABSENT ? "no peermem module is loaded" :
							 "a peermem module is loaded");
	else
		explain_rule_out(
			finding, "%s",
			pin->gpu_driver ?
				"The range begins in ordinary memory." :
				"The process has no GPU driver loaded, and the range holds no mapping of a device.");
}

void explain_file_mapping(const struct explain_evidence *evidence, struct mrg_finding *finding)
{
	const struct explain_pin_facts *pin = &evidence->process.pin;
	struct explain_refusal words;

	explain_refusal_file(pin, &words);
	if (evidence->opts.call != MRG_CALL_REG_MR)
		explain_rule_out(finding, "%s pins no memory by its address.",
				 mrg_call_name(evidence->opts.call));
	else if (evidence->opts.error != EFAULT)
		explain_rule_out(finding, "A file's shared mapping gives EFAULT.");
	else if (!evidence->process.range_known)
		explain_say(finding, MRG_NOT_SEEN, words.remedy, "%s", explain_no_range(evidence));
	else if (!pin->file_name[0])
		explain_rule_out(finding,
				 "The range holds no shared writable mapping of a file on disk.");
	else if (pin->file_refused == EXPLAIN_NO)
		explain_rule_out(finding, "Kernels before 6.5 pin a file's shared mapping.");
	else
		explain_say(finding, pin->file_refused == EXPLAIN_YES ? MRG_IS : MRG_MAY_BE,
			    words.remedy, "%s", words.text);
}
