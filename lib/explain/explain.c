/* SPDX-License-Identifier: MIT */
/* Each cause is weighed by its own evidence; none is named for want of another. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "explain/explain.h"
#include "base/opts.h"
#include "explain/refusal.h"

static void (*const weigh[MRG_CAUSES])(const struct explain_evidence *evidence,
				       struct mrg_finding *finding) = {
	[MRG_CAUSE_VMA_LIMIT] = explain_vma_limit,
	[MRG_CAUSE_MEMLOCK] = explain_memlock,
	[MRG_CAUSE_MR_SIZE] = explain_mr_size,
	[MRG_CAUSE_KEYS] = explain_keys,
	[MRG_CAUSE_HOLE] = explain_hole,
	[MRG_CAUSE_HUGE_PAGE] = explain_huge_page,
	[MRG_CAUSE_DEVICE_MEMORY] = explain_device_memory,
	[MRG_CAUSE_DMABUF_SIZE] = explain_dmabuf_size,
	[MRG_CAUSE_PAGE_OFFSET] = explain_page_offset,
	[MRG_CAUSE_DMABUF_SUPPORT] = explain_dmabuf_support,
	[MRG_CAUSE_EXPORTER] = explain_exporter,
	[MRG_CAUSE_CGROUP] = explain_cgroup,
	[MRG_CAUSE_FILE_MAPPING] = explain_file_mapping,
};

static int by_likelihood(const void *a, const void *b)
{
	const struct mrg_finding *x = a, *y = b;

	if (x->likelihood != y->likelihood)
		return x->likelihood < y->likelihood ? -1 : 1;
	return x->cause < y->cause ? -1 : x->cause > y->cause;
}

static int count_of(const struct mrg_explanation *explanation, enum mrg_likelihood likelihood)
{
	int count = 0;

	for (int i = 0; i < MRG_CAUSES; i++)
		count += explanation->findings[i].likelihood == likelihood;
	return count;
}

/* "memlock, device keys" */
static void list_causes(const struct mrg_explanation *explanation, enum mrg_likelihood from,
			enum mrg_likelihood to, char *out, size_t size)
{
	size_t used = 0;

	out[0] = '\0';
	for (int i = 0; i < MRG_CAUSES && used < size; i++) {
		const struct mrg_finding *finding = &explanation->findings[i];

		if (finding->likelihood < from || finding->likelihood > to)
			continue;
		used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "",
					 mrg_cause_name(finding->cause));
	}
}

static void summarize(const struct mrg_explain_opts *opts, struct mrg_explanation *out)
{
	int certain = count_of(out, MRG_IS);
	int open = count_of(out, MRG_MAY_BE) + count_of(out, MRG_NOT_SEEN);
	char name[64], causes[192];
	int len;

	snprintf(name, sizeof(name), "%s",
		 opts->error == ENOTSUPP ? "error 524 (ENOTSUPP)" : strerror(opts->error));
	len = snprintf(out->summary, sizeof(out->summary), "%s, %s: ", mrg_call_name(opts->call),
		       name);
	if (certain == 1) {
		snprintf(out->summary + len, sizeof(out->summary) - (size_t)len, "%s. %s",
			 mrg_cause_name(out->findings[0].cause), out->findings[0].text);
		return;
	}
	list_causes(out, certain ? MRG_IS : MRG_MAY_BE, certain ? MRG_IS : MRG_NOT_SEEN, causes,
		    sizeof(causes));
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

static int take_opts(const struct mrg_explain_opts *from, struct mrg_explain_opts *to)
{
	int ret = from ? base_opts_copy(to, sizeof(*to), from) : -EINVAL;

	if (ret)
		return ret;
	if (to->error <= 0 || to->call > MRG_CALL_MADVISE || to->pid < 0 ||
	    to->length > UINT64_MAX - to->addr || to->length > UINT64_MAX - to->offset)
		return -EINVAL;
	if (!to->devices)
		to->devices = 1;
	return to->length > UINT64_MAX / 2 / to->devices ? -EINVAL : 0;
}

int mrg_explain(const struct mrg_explain_opts *given, struct mrg_explanation *out)
{
	struct explain_evidence evidence = {
		.host_page = (uint64_t)sysconf(_SC_PAGESIZE),
	};
	int ret = take_opts(given, &evidence.opts);

	if (!ret)
		explain_ask_device(&evidence.opts, &evidence.dmabuf_answer);
	if (!ret)
		ret = explain_read_process(&evidence.opts, &evidence.process);
	if (ret)
		return ret;
	if (evidence.process.base_page)
		evidence.host_page = evidence.process.base_page;
	for (int i = 0; i < MRG_CAUSES; i++) {
		out->findings[i].cause = (enum mrg_cause)i;
		weigh[i](&evidence, &out->findings[i]);
	}
	qsort(out->findings, MRG_CAUSES, sizeof(out->findings[0]), by_likelihood);
	summarize(&evidence.opts, out);
	return 0;
}
