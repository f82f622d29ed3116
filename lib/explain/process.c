/* SPDX-License-Identifier: MIT */
/* The process that a call failed in: its VMAs, its limits, its range. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mrguard/vma.h>

#include "explain/explain.h"
#include "host/maps.h"

#define CAP_IPC_LOCK_BIT 14

struct source {
	const char *root;
	char process[16]; /* "4711", "self" */
};

static void path_of(const struct source *from, const char *file, char *path)
{
	snprintf(path, PATH_MAX, "%s/%s/%s", from->root, from->process, file);
}

static FILE *open_file(const struct source *from, const char *file)
{
	char path[PATH_MAX];

	path_of(from, file, path);
	return fopen(path, "re");
}

static bool read_memlock(const struct source *from, struct explain_process_facts *facts)
{
	FILE *file = open_file(from, "limits");
	char line[256];
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		const char *key = "Max locked memory";

		if (strncmp(line, key, strlen(key)))
			continue;
		found = true;
		if (sscanf(line + strlen(key), "%" SCNu64, &facts->memlock) != 1)
			facts->memlock = UNLIMITED;
	}
	fclose(file);
	return found;
}

static bool read_status(const struct source *from, struct explain_process_facts *facts)
{
	FILE *file = open_file(from, "status");
	uint64_t value;
	char line[256];

	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "VmPin: %" SCNu64, &value) == 1)
			facts->pinned = value << 10;
		else if (sscanf(line, "CapEff: %" SCNx64, &value) == 1)
			facts->may_lock = value >> CAP_IPC_LOCK_BIT & 1;
	}
	fclose(file);
	return true;
}

/*
 * ib_umem_get() asks capable(), that is, in the initial user namespace: a
 * container's root does not pass.
 */
static bool in_own_namespace(const struct source *from)
{
	uint64_t inside, outside, count;
	FILE *file = open_file(from, "uid_map");
	bool own = false;

	if (!file)
		return false;
	if (fscanf(file, "%" SCNu64 " %" SCNu64 " %" SCNu64, &inside, &outside, &count) == 3)
		own = outside != 0 || count != UINT32_MAX;
	fclose(file);
	return own;
}

static void read_limits(const struct source *from, struct explain_process_facts *facts)
{
	facts->memlock_known = read_status(from, facts) && read_memlock(from, facts);
	if (in_own_namespace(from))
		facts->may_lock = false;
}

static bool read_vma_limit(const struct source *from, uint64_t *limit)
{
	char path[PATH_MAX];
	FILE *file;
	bool ok;

	snprintf(path, sizeof(path), "%s/sys/vm/max_map_count", from->root);
	file = fopen(path, "re");
	if (!file)
		return false;
	ok = fscanf(file, "%" SCNu64, limit) == 1;
	fclose(file);
	return ok;
}

/* One pass: the number of VMAs, and the largest page of the range. */
static int walk(const struct source *from, const char *name, const struct mrg_explain_opts *opts,
		struct explain_process_facts *facts)
{
	uint64_t end = opts->addr + opts->length;
	struct host_maps_vma vma;
	struct host_maps maps;
	char path[PATH_MAX];
	int ret;

	path_of(from, name, path);
	ret = host_maps_open(&maps, path);
	if (ret)
		return ret;
	facts->vmas = 0;
	while ((ret = host_maps_next(&maps, &vma)) == 1) {
		facts->vmas += strcmp(vma.name, "[vsyscall]") != 0;
		if (vma.end > opts->addr && vma.start < end && vma.page_size > facts->page_size)
			facts->page_size = vma.page_size;
	}
	host_maps_close(&maps);
	return ret;
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

static void read_maps(const struct source *from, const struct mrg_explain_opts *opts,
		      struct explain_process_facts *facts)
{
	bool range = opts->addr && opts->length;

	if (walk(from, range && pages_matter(opts) ? "smaps" : "maps", opts, facts))
		return;
	facts->vmas_known = read_vma_limit(from, &facts->vma_limit);
	facts->range_known = range && !read_pin(from, opts, &facts->pin);
	if (opts->dev && !opts->proc)
		mrg_vma_count(opts->dev, opts->pid, &facts->vmas);
}

int explain_read_process(const struct mrg_explain_opts *opts, struct explain_process_facts *facts)
{
	struct source from = { .root = opts->proc ? opts->proc : "/proc", .process = "self" };
	FILE *there;

	if (opts->pid)
		snprintf(from.process, sizeof(from.process), "%d", (int)opts->pid);
	there = open_file(&from, "status");
	if (!there)
		return errno == ENOENT ? -ESRCH : -errno;
	fclose(there);
	*facts = (struct explain_process_facts){ .memlock = UNLIMITED };
	read_limits(&from, facts);
	read_maps(&from, opts, facts);
	return 0;
}
