/* SPDX-License-Identifier: MIT */
/* The process that a call failed in: its VMAs, its limits, its range. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/auxv.h>

#include <mrguard/vma.h>

#include "explain/explain.h"
#include "host/maps.h"

struct source {
	const char *root;
	char process[16]; /* "4711", "self" */
};

static const char *path_of(const struct source *from, const char *file, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s/%s", from->root, from->process, file);
	return path;
}

/* Whether the access asked for writes is not known, so a read-only mapping is
 * told only where there is nothing worse. */
static int read_pin(const struct source *from, const struct mrg_explain_opts *opts,
		    struct explain_pin_facts *pin)
{
	struct explain_pin_facts worse;
	int ret = explain_pin_read(from->root, from->process, opts->addr, opts->length, true, pin);

	if (!ret && pin->fault == PIN_READ_ONLY &&
	    !explain_pin_read(from->root, from->process, opts->addr, opts->length, false, &worse) &&
	    worse.fault)
		*pin = worse;
	if (!ret && !opts->pid && !opts->proc)
		explain_pin_ask_drivers(pin);
	return ret;
}

/* Only smaps tells page sizes, and it is dear. */
static bool pages_matter(const struct mrg_explain_opts *opts)
{
	bool cut = opts->max_mr_size && opts->length > opts->max_mr_size;

	return !opts->page_size && opts->call != MRG_CALL_REG_DMABUF_MR &&
	       (cut || opts->error == EINVAL);
}

static void read_range(const struct source *from, const struct mrg_explain_opts *opts,
		       struct explain_process_facts *facts)
{
	char path[PATH_MAX];

	if (pages_matter(opts))
		facts->page_size =
			host_maps_page_size(path_of(from, "smaps", path), opts->addr, opts->length);
	facts->range_known = !read_pin(from, opts, &facts->pin);
}

/*
 * The page size that the process runs on, which for a recorded one is not this
 * host's: AT_PAGESZ of its auxiliary vector, else what the record says of the host.
 */
static uint64_t read_base_page(const struct source *from)
{
	char path[PATH_MAX], line[64];
	uint64_t pair[2], page = 0;
	FILE *file = fopen(path_of(from, "auxv", path), "re");

	while (file && !page && fread(pair, sizeof(pair), 1, file) == 1 && pair[0])
		page = pair[0] == AT_PAGESZ ? pair[1] : 0;
	if (file)
		fclose(file);
	snprintf(path, sizeof(path), "%s/../.mrguard/host", from->root);
	file = page ? NULL : fopen(path, "re");
	while (file && !page && fgets(line, sizeof(line), file))
		sscanf(line, "page_size %" SCNu64, &page);
	if (file)
		fclose(file);
	return page & (page - 1) ? 0 : page;
}

int explain_read_process(const struct mrg_explain_opts *opts, struct explain_process_facts *facts)
{
	struct source from = { .root = opts->proc ? opts->proc : "/proc", .process = "self" };
	int ret;

	if (opts->pid)
		snprintf(from.process, sizeof(from.process), "%d", (int)opts->pid);
	*facts = (struct explain_process_facts){ .page_size = 0 };
	ret = host_limits_read(from.root, from.process, &facts->limits);
	if (ret)
		return ret == -ENOENT ? -ESRCH : ret;
	explain_read_cgroup(from.root, from.process, opts->device, &facts->cgroup);
	facts->base_page = read_base_page(&from);
	if (opts->dev && !opts->proc)
		mrg_vma_count(opts->dev, opts->pid, &facts->limits.vmas);
	if (opts->addr && opts->length)
		read_range(&from, opts, facts);
	return 0;
}
