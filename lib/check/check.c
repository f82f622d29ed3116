/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/opts.h"
#include "check/check.h"

/*
 * In the order of the report: what corrupts data first.  A check looks at the
 * host once, or at each RDMA device; @basis is what its verdicts rest on where the
 * check does not say otherwise, and @nothing is the evidence where there was no
 * device that it applies to.
 */
static const struct check {
	const char *id;
	void (*host)(struct check_ctx *ctx);
	bool (*device)(struct check_ctx *ctx, const struct check_rdma *rdma);
	enum mrg_check_basis basis;
	const char *nothing;
} checks[] = {
	{ "walk", .host = check_walk },
	{ "vendor-stack", .host = check_vendor_stack, .basis = MRG_BASIS_READ },
	{ "device-pages", .device = check_device_pages,
	  .nothing = "/sys/class/infiniband: no device" },
	{ "page-size", .host = check_page_size, .basis = MRG_BASIS_READ },
	{ "rdma-core", .host = check_rdma_core },
	{ "dmabuf", .host = check_dmabuf, .basis = MRG_BASIS_READ },
	{ "peermem", .host = check_peermem, .basis = MRG_BASIS_READ },
	{ "platform", .host = check_platform, .basis = MRG_BASIS_READ },
	{ "iommu", .device = check_iommu, .basis = MRG_BASIS_READ,
	  .nothing = "no RDMA device on PCI" },
	{ "acs", .device = check_acs, .basis = MRG_BASIS_READ,
	  .nothing = "no pair of RDMA device and GPU on PCI" },
	{ "pci-path", .device = check_pci_path, .basis = MRG_BASIS_READ,
	  .nothing = "no pair of RDMA device and GPU on PCI" },
	{ "bar1", .host = check_bar1, .basis = MRG_BASIS_READ },
	{ "data-direct", .host = check_data_direct, .basis = MRG_BASIS_READ },
	{ "fork", .host = check_fork, .basis = MRG_BASIS_ASKED },
	{ "map-count", .host = check_map_count, .basis = MRG_BASIS_READ },
	{ "memlock", .host = check_memlock, .basis = MRG_BASIS_READ },
	{ "fds", .host = check_fds, .basis = MRG_BASIS_READ },
	{ "gid", .device = check_gid, .basis = MRG_BASIS_READ, .nothing = "no RDMA device" },
	{ "subnet", .host = check_subnet, .basis = MRG_BASIS_READ },
	{ "mtu", .device = check_mtu, .basis = MRG_BASIS_READ,
	  .nothing = "no RDMA device with a network device" },
	{ "module", .host = check_module, .basis = MRG_BASIS_ASKED },
	{ "tested", .host = check_tested, .basis = MRG_BASIS_READ },
};

static bool is_asked_for(const struct check_ctx *ctx, const struct check_rdma *rdma)
{
	return !ctx->opts->device || !strcmp(ctx->opts->device, rdma->name);
}

static bool device_is_there(const struct check_ctx *ctx)
{
	for (size_t i = 0; ctx->opts->device && i < ctx->host.rdma_count; i++)
		if (is_asked_for(ctx, &ctx->host.rdma[i]))
			return true;
	return !ctx->opts->device;
}

static void run_devices(struct check_ctx *ctx, const struct check *check)
{
	bool applies = false;

	for (size_t i = 0; i < ctx->host.rdma_count; i++) {
		ctx->basis = check->basis;
		if (is_asked_for(ctx, &ctx->host.rdma[i]))
			applies |= check->device(ctx, &ctx->host.rdma[i]);
	}
	if (!applies)
		check_add(ctx, MRG_CHECK_SKIP, "", "", "", "%s", check->nothing);
}

/*
 * What was lost for want of memory looks like what is not there, to a check and
 * to the facts that all rest on; so the lines of a check that lost anything are
 * dropped.
 */
static void run_check(struct check_ctx *ctx, const struct check *check, bool facts_lost)
{
	size_t before = ctx->report->count;

	ctx->id = check->id;
	ctx->basis = check->basis;
	ctx->lost = facts_lost;
	if (!facts_lost && check->host)
		check->host(ctx);
	else if (!facts_lost)
		run_devices(ctx, check);
	if (!host_tree_lost(ctx->tree) && !ctx->lost)
		return;
	ctx->report->count = before;
	check_add(
		ctx, MRG_CHECK_UNKNOWN, "", "This check could not read a fact that it rests on.",
		"Free memory, or raise this process's limit (ulimit -v, memory.max), and check again.",
		"not read for want of memory");
}

static bool read_facts(struct check_ctx *ctx)
{
	check_read_facts(ctx);
	return host_tree_lost(ctx->tree) || ctx->lost;
}

int mrg_check_run(const struct mrg_check_opts *in, struct mrg_check_report **out)
{
	struct mrg_check_opts opts;
	struct check_ctx ctx = { .opts = &opts };
	int rc = base_opts_copy(&opts, sizeof(opts), in);
	bool facts_lost;

	if (rc)
		return rc;
	rc = host_tree_open(&ctx.tree, opts.root, opts.dump);
	if (rc)
		return rc;
	ctx.report = calloc(1, sizeof(*ctx.report));
	rc = ctx.report ? 0 : -ENOMEM;
	facts_lost = !rc && read_facts(&ctx);
	if (!rc && !facts_lost && !device_is_there(&ctx))
		rc = -ENODEV;
	for (size_t i = 0; !rc && i < sizeof(checks) / sizeof(*checks); i++)
		run_check(&ctx, &checks[i], facts_lost);
	if (!rc && ctx.report->out_of_memory)
		rc = -ENOMEM;
	check_free_facts(&ctx.host);
	host_tree_close(ctx.tree);
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
		[MRG_CHECK_SKIP] = 0,	 [MRG_CHECK_OK] = 1,   [MRG_CHECK_LIKELY] = 2,
		[MRG_CHECK_UNKNOWN] = 3, [MRG_CHECK_WARN] = 4, [MRG_CHECK_FAIL] = 5,
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
		[MRG_CHECK_SKIP] = "skip", [MRG_CHECK_LIKELY] = "likely",
	};

	if ((unsigned int)verdict >= sizeof(names) / sizeof(*names))
		return "unknown";
	return names[verdict];
}

const char *mrg_check_basis_name(enum mrg_check_basis basis)
{
	static const char *const names[] = { "none", "inferred", "read", "asked" };

	return (unsigned int)basis < sizeof(names) / sizeof(*names) ? names[basis] : "none";
}
