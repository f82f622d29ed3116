/* SPDX-License-Identifier: MIT */
/* What a report on VMAs means, in a sentence, and what to do. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "host/vma_verdict.h"

#define HIGH_PERCENT 50
#define NEAR_PERCENT 90

struct host_grouped host_grouped(uint64_t value)
{
	struct host_grouped grouped;
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, value);
	char *to = grouped.text;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
	return grouped;
}
#define GROUPED(value) (host_grouped(value).text)

static unsigned int percent(const struct mrg_vma_report *report)
{
	if (!report->limit)
		return 0;
	return (unsigned int)((double)report->count * 100 / (double)report->limit);
}

static enum mrg_vma_state state_of(const struct mrg_vma_report *report)
{
	unsigned int used = percent(report);

	if (used >= NEAR_PERCENT)
		return MRG_VMA_NEAR;
	return used >= HIGH_PERCENT ? MRG_VMA_HIGH : MRG_VMA_FAR;
}

/* Adds to the verdict; @remedy NULL: the one that is there stays. */
__attribute__((format(printf, 3, 4))) static void say(struct mrg_vma_report *report,
						      const char *remedy, const char *format, ...)
{
	size_t used = strlen(report->verdict);
	va_list args;

	va_start(args, format);
	vsnprintf(report->verdict + used, sizeof(report->verdict) - used, format, args);
	va_end(args);
	if (remedy)
		snprintf(report->remedy, sizeof(report->remedy), "%s", remedy);
}

static const struct mrg_vma_family *top_family(const struct mrg_vma_report *report,
					       const char *kind)
{
	for (size_t i = 0; i < report->nfamilies; i++)
		if (!strcmp(report->families[i].kind, kind))
			return &report->families[i];
	return NULL;
}

static void blame_kind(struct mrg_vma_report *report)
{
	const struct mrg_vma_kind *kind = report->kinds;
	const struct mrg_vma_family *family = top_family(report, kind->kind);

	say(report,
	    "Find what maps them (the exact size tells), and have it map fewer, larger pieces or unmap them; raising vm.max_map_count buys time.",
	    ": fork protection is not the cause. Most are %.80s: %s", kind->kind,
	    GROUPED(kind->count));
	if (family && family->count > 1)
		say(report, NULL, ", of these %s of exactly %s bytes", GROUPED(family->count),
		    GROUPED(family->length));
}

static void blame(struct mrg_vma_report *report)
{
	if (report->fork_pieces * 2 < report->count)
		blame_kind(report);
	else if (!report->flags_known)
		say(report, "Look at smaps too: its flags tell whether they are VM_DONTCOPY.",
		    ": %s lie beside one that looks the same, as fork protection leaves them; maps alone cannot tell",
		    GROUPED(report->alike));
	else if (report->stuck_anon > report->joinable)
		say(report,
		    "Register through mrg_reg(3), which writes one byte of fresh memory first, or from a pool (mrg_pool(3)). Pieces that are there go when their memory is unmapped.",
		    ": %s pieces were cut apart, as fork protection does it, and written afterwards: they never merge again",
		    GROUPED(report->stuck_anon));
	else
		say(report,
		    "Where `rdma system show` says copy-on-fork on, do not call ibv_fork_init() and unset RDMAV_FORK_SAFE; else register fewer, larger pieces or from a pool (mrg_pool(3)).",
		    ": fork protection is the cause. %s are VM_DONTCOPY, and %s were cut off beside them",
		    GROUPED(report->dontcopy), GROUPED(report->joinable));
}

/* "60,123 of 65,530 VMAs (91%): ..." */
void host_vma_judge(struct mrg_vma_report *report)
{
	report->state = state_of(report);
	/* Each such pair is one VMA that would not be there without the cut. */
	report->fork_pieces = report->flags_known ? report->joinable + report->stuck_anon :
						    report->alike;
	if (report->limit)
		say(report, NULL, "%s of %s VMAs (%u%%)", GROUPED(report->count),
		    GROUPED(report->limit), percent(report));
	else
		say(report, NULL, "%s VMAs", GROUPED(report->count));
	if (report->state == MRG_VMA_FAR || !report->nkinds)
		say(report,
		    "If a call failed all the same, look elsewhere: `mrguard explain` tells memlock, device keys, holes and huge-page borders apart.",
		    report->limit ? ": the limit is not near" :
				    "; the limit they ran under is not known");
	else
		blame(report);
	say(report, NULL, ".");
}

const char *mrg_vma_state_name(enum mrg_vma_state state)
{
	switch (state) {
	case MRG_VMA_FAR:
		return "far";
	case MRG_VMA_HIGH:
		return "high";
	case MRG_VMA_NEAR:
		return "near";
	}
	return "unknown";
}
