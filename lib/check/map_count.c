/* SPDX-License-Identifier: MIT */
/* vm.max_map_count, and the process that is nearest to it. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <mrguard/vma.h>

#include "base/clock.h"
#include "check/check.h"

#define BUDGET_MS 60 /* of the whole check's 300 ms */

struct nearest {
	long count;
	char pid[16];
	size_t counted, not_counted;
};

/* The module knows the count in O(1); otherwise the lines are counted.  Only
 * on a live host, so that no process's map ends up in a recording. */
static long count_of(struct mrg_dev *dev, const char *pid)
{
	uint64_t count;
	int ret = mrg_vma_count(dev, atoi(pid), &count);

	return ret ? ret : (long)count;
}

static int ask_nearest(void *arg, char *buf, size_t cap)
{
	struct check_ctx *ctx = arg;
	struct nearest best = { .count = -1 };
	struct mrg_dev *dev = NULL;
	int64_t until = base_now_ms() + BUDGET_MS;
	long count;
	char **names;
	ssize_t n;

	if (mrg_dev_open(&dev))
		dev = NULL;
	n = host_tree_list(ctx->tree, "/proc", &names);
	for (ssize_t i = 0; i < n; i++) {
		if (!isdigit((unsigned char)names[i][0]))
			continue;
		count = base_now_ms() > until ? -1 : count_of(dev, names[i]);
		if (count < 0) {
			ctx->lost |= count == -ENOMEM;
			best.not_counted++;
			continue;
		}
		best.counted++;
		if (count > best.count) {
			best.count = count;
			snprintf(best.pid, sizeof(best.pid), "%.15s", names[i]);
		}
	}
	if (n > 0)
		host_tree_free_names(names, n);
	mrg_dev_close(dev);
	if (best.count < 0)
		return n < 0 ? (int)n : -EACCES;
	snprintf(buf, cap, "count %ld\npid %s\nseen %zu\nnot_seen %zu", best.count, best.pid,
		 best.counted, best.not_counted);
	return 0;
}

static void judge(struct check_ctx *ctx, unsigned long long limit, const char *fact)
{
	char pid[16] = "", comm[64] = "", path[64], evidence[256];
	size_t counted = 0, not_counted = 0;
	long count = 0;

	if (sscanf(fact, "count %ld pid %15s seen %zu not_seen %zu", &count, pid, &counted,
		   &not_counted) != 4) {
		check_add(ctx, MRG_CHECK_UNKNOWN, "", "", "",
			  "the recorded count is not understood");
		return;
	}
	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	host_tree_read(ctx->tree, path, comm, sizeof(comm));
	snprintf(
		evidence, sizeof(evidence),
		"vm.max_map_count %llu; nearest: pid %s (%s) with %ld VMAs; %zu processes counted, %zu not",
		limit, pid, comm, count, counted, not_counted);
	if ((unsigned long long)count * 10 >= limit * 9)
		check_add(
			ctx, MRG_CHECK_FAIL, "",
			"A process has used 90% of its VMAs: at the limit every mmap and registration fails with ENOMEM.",
			"Find what holds them ('mrguard vma PID'); 'sysctl -w vm.max_map_count=1048576' buys time.",
			"%s", evidence);
	else if ((unsigned long long)count * 2 >= limit)
		check_add(ctx, MRG_CHECK_WARN, "", "A process holds half of the VMAs that it may.",
			  "Watch it: 'mrguard vma PID --watch'.", "%s", evidence);
	else
		check_add(ctx, MRG_CHECK_OK, "", "No process that was counted is near the limit.",
			  "", "%s", evidence);
}

void check_map_count(struct check_ctx *ctx)
{
	unsigned long long limit;
	char fact[256];
	int rc = host_tree_read_u64(ctx->tree, "/proc/sys/vm/max_map_count", &limit);
	bool low;
	ssize_t n;

	if (rc) {
		check_add(ctx, MRG_CHECK_UNKNOWN, "", "The limit is not known.", "",
			  "vm.max_map_count: %s", check_why(rc));
		return;
	}
	n = host_tree_fact(ctx->tree, "map_count", fact, sizeof(fact), ask_nearest, ctx);
	if (n > 0) {
		judge(ctx, limit, fact);
		return;
	}
	low = limit < 65530;
	check_add(ctx, low ? MRG_CHECK_WARN : MRG_CHECK_UNKNOWN, "",
		  low ? "The limit is below the kernel's default." :
			"Whether a process is near the limit is not known.",
		  "Count one process: 'mrguard vma PID'.",
		  "vm.max_map_count %llu; processes not counted: %s", limit, check_why((int)n));
}
