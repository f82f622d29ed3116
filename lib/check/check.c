/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "base/opts.h"
#include "base/text.h"

struct mrg_check_report {
	struct mrg_check_result *results;
	size_t count, cap;
	bool out_of_memory;
};

/* In the order of the report: what corrupts data first. */
static const struct check_item *const checks[] = {
	&check_walk,	    &check_vendor_stack, &check_device_pages, &check_page_size,
	&check_rdma_core,   &check_dmabuf,	 &check_peermem,      &check_platform,
	&mrg_check_iommu,   &mrg_check_acs,	 &mrg_check_pci_path, &mrg_check_bar1,
	&check_data_direct, &check_fork,	 &check_map_count,    &check_memlock,
	&check_fds,	    &check_gid,		 &check_subnet,	      &check_mtu,
	&check_module,	    &check_tested,
};

static void put(char *to, size_t cap, const char *from)
{
	snprintf(to, cap, "%s", from ? from : "");
	base_make_plain(to);
}

/* Where a check knows no better one. */
static const char *remedy_for_unseen(const struct check_ctx *ctx)
{
	if (ctx->opts->root)
		return "Record the host again, as root and with this version: mrguard check --dump DIR";
	return "Run as root on the host itself, outside of containers.";
}

void check_add(struct check_ctx *ctx, enum mrg_check_verdict verdict, const char *subject,
	       const char *evidence, const char *meaning, const char *remedy)
{
	struct mrg_check_report *report = ctx->report;
	struct mrg_check_result *r;

	if (report->count == report->cap) {
		size_t cap = report->cap ? 2 * report->cap : 64;
		void *more = realloc(report->results, cap * sizeof(*report->results));

		if (!more) {
			report->out_of_memory = true;
			return;
		}
		report->results = more;
		report->cap = cap;
	}
	r = &report->results[report->count++];
	r->id = ctx->id;
	r->verdict = verdict;
	put(r->subject, sizeof(r->subject), subject);
	put(r->evidence, sizeof(r->evidence), evidence);
	put(r->meaning, sizeof(r->meaning), meaning);
	if (verdict == MRG_CHECK_UNKNOWN && !(remedy && *remedy))
		remedy = remedy_for_unseen(ctx);
	put(r->remedy, sizeof(r->remedy), remedy);
}

char *check_buffer(struct check_ctx *ctx)
{
	char *text = malloc(HOST_TREE_MAX_FILE);

	ctx->lost |= !text;
	return text;
}

const char *check_why(int err)
{
	switch (err) {
	case -EACCES:
	case -EPERM:
		return "needs root";
	case -ENOENT:
	case -ENOTDIR:
		return "not there";
	case -EINVAL:
		return "not understood";
	case -ELOOP:
		return "links in a circle";
	case -EBADF:
		return "not a regular file";
	default:
		return strerror(err < 0 ? -err : err);
	}
}

static bool device_is_there(const struct check_ctx *ctx)
{
	if (!ctx->opts->device)
		return true;
	for (size_t i = 0; i < ctx->host.rdma_count; i++)
		if (!strcmp(ctx->host.rdma[i].name, ctx->opts->device))
			return true;
	return false;
}

/*
 * What was lost for want of memory looks like what is not there, to a check and
 * to the facts that all rest on; so a check that lost anything has said nothing.
 */
static void run_check(struct check_ctx *ctx, const struct check_item *check, bool facts_lost)
{
	size_t before = ctx->report->count;

	ctx->id = check->id;
	ctx->lost = facts_lost;
	if (!facts_lost)
		check->run(ctx);
	if (!mrg_tree_lost(ctx->tree) && !ctx->lost)
		return;
	ctx->report->count = before;
	check_add(
		ctx, MRG_CHECK_UNKNOWN, "", "not read for want of memory",
		"Something that this rests on was not seen.",
		"Free memory, or raise this process's limit (ulimit -v, memory.max), and check again.");
}

static bool read_facts(struct check_ctx *ctx)
{
	check_read_facts(ctx);
	return mrg_tree_lost(ctx->tree) || ctx->lost;
}

int mrg_check_run(const struct mrg_check_opts *in, struct mrg_check_report **out)
{
	struct mrg_check_opts opts;
	struct check_ctx ctx = { .opts = &opts };
	int rc = base_opts_copy(&opts, sizeof(opts), in);
	bool facts_lost;

	if (rc)
		return rc;
	rc = mrg_tree_open(&ctx.tree, opts.root, opts.dump);
	if (rc)
		return rc;
	ctx.report = calloc(1, sizeof(*ctx.report));
	rc = ctx.report ? 0 : -ENOMEM;
	facts_lost = !rc && read_facts(&ctx);
	if (!rc && !facts_lost && !device_is_there(&ctx))
		rc = -ENODEV;
	for (size_t i = 0; !rc && i < sizeof(checks) / sizeof(*checks); i++)
		run_check(&ctx, checks[i], facts_lost);
	if (!rc && ctx.report->out_of_memory)
		rc = -ENOMEM;
	check_free_facts(&ctx.host);
	mrg_tree_close(ctx.tree);
	if (rc) {
		mrg_check_free(ctx.report);
		return rc;
	}
	*out = ctx.report;
	return 0;
}

void mrg_check_free(struct mrg_check_report *report)
{
	if (!report)
		return;
	free(report->results);
	free(report);
}

const struct mrg_check_result *mrg_check_results(const struct mrg_check_report *report,
						 size_t *count)
{
	*count = report->count;
	return report->results;
}

enum mrg_check_verdict mrg_check_worst(const struct mrg_check_report *report)
{
	static const int rank[] = {
		[MRG_CHECK_SKIP] = 0, [MRG_CHECK_OK] = 1,   [MRG_CHECK_UNKNOWN] = 2,
		[MRG_CHECK_WARN] = 3, [MRG_CHECK_FAIL] = 4,
	};
	enum mrg_check_verdict worst = MRG_CHECK_SKIP;

	for (size_t i = 0; i < report->count; i++)
		if (rank[report->results[i].verdict] > rank[worst])
			worst = report->results[i].verdict;
	return worst;
}

const char *mrg_check_verdict_name(enum mrg_check_verdict verdict)
{
	static const char *const names[] = {
		[MRG_CHECK_OK] = "ok",	   [MRG_CHECK_WARN] = "warn",
		[MRG_CHECK_FAIL] = "fail", [MRG_CHECK_UNKNOWN] = "unknown",
		[MRG_CHECK_SKIP] = "skip",
	};

	if ((unsigned int)verdict >= sizeof(names) / sizeof(*names))
		return "unknown";
	return names[verdict];
}
