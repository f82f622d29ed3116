/* SPDX-License-Identifier: MIT */
/* Causes in the size and the number of MRs. */
#include <errno.h>
#include <inttypes.h>

#include "explain/explain.h"

/* From so many on the firmware's own limit, which no attribute tells, is weighed. */
#define MANY_MRS 65536

static bool registers(const struct explain_evidence *evidence)
{
	return evidence->opts.call == MRG_CALL_REG_MR ||
	       evidence->opts.call == MRG_CALL_REG_DMABUF_MR;
}

static uint64_t huge_page(const struct explain_evidence *evidence)
{
	uint64_t size = evidence->opts.page_size ? evidence->opts.page_size :
						   evidence->process.page_size;

	return size > evidence->host_page ? size : 0;
}

static const char limit_remedy[] =
	"Use smaller huge pages, or a device or setting with a larger limit.";

/* MRs end at borders of huge pages, so one must hold at least a page. */
static bool limit_below_huge_page(const struct explain_evidence *evidence)
{
	return evidence->opts.call == MRG_CALL_REG_MR && evidence->opts.max_mr_size &&
	       evidence->opts.max_mr_size < huge_page(evidence);
}

static void weigh_length(const struct explain_evidence *evidence, struct mrg_finding *finding)
{
	uint64_t limit = evidence->opts.max_mr_size, length = evidence->opts.length;

	if (length <= limit)
		explain_rule_out(
			finding,
			"The buffer has %s (%s), the device's largest MR %s: it takes 1 MR.",
			SIZE(length), NUMBER(length), SIZE(limit));
	else if (limit_below_huge_page(evidence))
		explain_say(
			finding, MRG_IS, limit_remedy,
			"The buffer has %s (%s), the device's largest MR %s, and no MR can end inside its huge pages of %s: mrg_reg(3) refuses it too.",
			SIZE(length), NUMBER(length), SIZE(limit), SIZE(huge_page(evidence)));
	else
		explain_say(
			finding, MRG_IS,
			"Register through mrg_reg(3), which makes as many MRs as it takes, or split the buffer.",
			"The buffer has %s (%s), the device's largest MR %s: it takes %" PRIu64
			" MRs.",
			SIZE(length), NUMBER(length), SIZE(limit), (length - 1) / limit + 1);
}

void explain_mr_size(const struct explain_evidence *evidence, struct mrg_finding *finding)
{
	uint64_t limit = evidence->opts.max_mr_size, length = evidence->opts.length;
	int error = evidence->opts.error;

	if (!registers(evidence))
		explain_rule_out(finding, "%s makes no MR.", mrg_call_name(evidence->opts.call));
	else if (error != ENOMEM && error != EINVAL && error != EIO)
		explain_rule_out(finding,
				 "Drivers refuse too long an MR with EINVAL, ENOMEM or EIO.");
	else if (!limit && evidence->opts.device)
		explain_say(finding, MRG_NOT_SEEN,
			    "Take a device that `mrguard info' lists, and run as root.",
			    "RDMA device %s could not be asked for its largest MR.",
			    evidence->opts.device);
	else if (!limit || !length)
		explain_say(finding, MRG_NOT_SEEN,
			    "Give the buffer's length, and the device or its largest MR.", "%s",
			    limit ? "The buffer's length is not given." :
				    "The device's largest MR is not known.");
	else
		weigh_length(evidence, finding);
}

void explain_keys(const struct explain_evidence *evidence, struct mrg_finding *finding)
{
	static const char remedy[] =
		"Look for leaked MRs with `rdma resource show mr` and for the driver's word in dmesg; register fewer, larger buffers.";
	uint64_t mrs = evidence->opts.mrs, max = evidence->opts.max_mrs;

	if (!registers(evidence))
		explain_rule_out(finding, "%s takes no MR key.",
				 mrg_call_name(evidence->opts.call));
	else if (evidence->opts.error == EAGAIN)
		explain_say(
			finding, MRG_MAY_BE, remedy,
			"mlx5 gives EAGAIN where its firmware has no more keys or translation entries, which no attribute tells.");
	else if (evidence->opts.error != ENOMEM && evidence->opts.error != ENOSPC)
		explain_rule_out(finding, "A device without keys gives ENOMEM or EAGAIN.");
	else if (!max)
		explain_say(finding, MRG_NOT_SEEN, remedy,
			    "How many MRs the device has, and can have, is not known.");
	else if (mrs < max && mrs >= MANY_MRS)
		explain_say(
			finding, MRG_MAY_BE, remedy,
			"The device has %s of %s MRs; the firmware's own limit can be lower (dmesg: CREATE_MKEY, limits exceeded).",
			NUMBER(mrs), NUMBER(max));
	else
		explain_say(finding, mrs >= max ? MRG_IS : MRG_IS_NOT, remedy,
			    "The device has %s of %s MRs.", NUMBER(mrs), NUMBER(max));
}

/* Without an address a length can still be one that no start helps. */
static void weigh_huge_range(const struct explain_evidence *evidence, uint64_t huge,
			     struct mrg_finding *finding)
{
	static const char remedy[] =
		"Align buffers and their parts to the huge page, set RDMAV_HUGEPAGES_SAFE=1 before the process starts, or do without fork protection.";
	uint64_t start = evidence->opts.addr, length = evidence->opts.length;

	if (limit_below_huge_page(evidence))
		explain_say(
			finding, MRG_IS, limit_remedy,
			"The largest MR of %s is smaller than the huge page of %s: no MR can end at a huge page's border.",
			SIZE(evidence->opts.max_mr_size), SIZE(huge));
	else if (start && (start | length) & (huge - 1))
		explain_say(
			finding, MRG_IS, remedy,
			"The range 0x%" PRIx64
			" + %s cuts huge pages of %s, which fork protection cannot mark in part.",
			start, NUMBER(length), SIZE(huge));
	else if (length & (huge - 1))
		explain_say(
			finding, MRG_IS, remedy,
			"A range of %s bytes cuts huge pages of %s wherever it begins, and fork protection cannot mark a part of one.",
			NUMBER(length), SIZE(huge));
	else if (!start || !length)
		explain_say(
			finding, MRG_NOT_SEEN, "Give address and length.",
			"Whether the range begins and ends at borders of huge pages (%s) is not known: its %s is not given.",
			SIZE(huge), start ? "length" : "address");
	else
		explain_rule_out(finding,
				 "The range begins and ends at borders of its huge pages (%s).",
				 SIZE(huge));
}

void explain_huge_page(const struct explain_evidence *evidence, struct mrg_finding *finding)
{
	uint64_t huge = huge_page(evidence);

	if (!explain_takes_range(evidence))
		explain_rule_out(finding, "%s marks no pages.", mrg_call_name(evidence->opts.call));
	else if (evidence->opts.error != EINVAL)
		explain_rule_out(finding, "A cut huge page gives EINVAL.");
	else if (!evidence->process.range_known && !huge)
		explain_say(finding, MRG_NOT_SEEN, "Give address and length.", "%s",
			    explain_no_range(evidence));
	else if (!huge)
		explain_rule_out(finding, "The range holds no huge pages.");
	else
		weigh_huge_range(evidence, huge, finding);
}
