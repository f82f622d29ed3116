/* SPDX-License-Identifier: MIT */
/* The report on a process's VMAs: one pass over maps or smaps. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mrguard/host.h>
#include <mrguard/vma.h>

#include "base/opts.h"
#include "host/limits.h"
#include "host/maps.h"
#include "host/tally.h"
#include "host/vma_kind.h"
#include "host/vma_verdict.h"

#define FAMILY_SLOTS 8192
#define KIND_SLOTS 1024
#define DEFAULT_TOP 16

/* Linux since 4.5: nothing below is mapped, and user addresses end before. */
#define WHOLE_START 4096
#define WHOLE_END (UINT64_MAX & ~4095ULL)

struct survey {
	struct mrg_vma_report *report;
	struct host_tally families;
	struct host_tally kinds;
	struct host_maps_vma previous;
	uint64_t detailed;
};

int mrg_vma_limit(uint64_t *limit)
{
	return host_vma_limit("/proc", limit);
}

static const char *process_file(pid_t pid, const char *name, char *room, size_t size)
{
	if (pid)
		snprintf(room, size, "/proc/%d/%s", (int)pid, name);
	else
		snprintf(room, size, "/proc/self/%s", name);
	return room;
}

int mrg_vma_count(struct mrg_dev *dev, pid_t pid, uint64_t *count)
{
	struct mrg_vma_counts counts;
	char room[32];
	ssize_t lines;
	int ret;

	if (dev) {
		ret = mrg_dev_vma(dev, pid, 0, 0, &counts);
		if (!ret)
			*count = counts.map_count;
		return ret;
	}
	lines = host_maps_count(process_file(pid, "maps", room, sizeof(room)));
	if (lines < 0)
		return (int)lines;
	*count = (uint64_t)lines;
	return 0;
}

/* Offsets of anonymous memory are not shown, and taken to continue. */
static bool continues(const struct host_maps_vma *a, const struct host_maps_vma *b)
{
	return a->dev == b->dev && a->inode == b->inode && !strcmp(a->name, b->name) &&
	       (!a->inode || a->offset + (a->end - a->start) == b->offset);
}

/*
 * Neighbours with equal flags that the kernel has not merged; why not, as far
 * as smaps shows it.  The rules are those of can_vma_merge_before/after().
 */
static void count_stuck(struct mrg_vma_report *report, const struct host_maps_vma *a,
			const struct host_maps_vma *b)
{
	if (a->flags & HOST_MF_SPECIAL)
		report->stuck_special++;
	else if (!continues(a, b))
		report->stuck_file++;
	else if (!a->inode && a->perms[3] == 'p')
		report->stuck_anon++;
	else
		report->stuck_other++;
}

/* VM_SOFTDIRTY never keeps VMAs apart. */
#define COMPARED(flags) ((flags) & ~(uint64_t)(HOST_MF_SOFTDIRTY))

static void compare(struct mrg_vma_report *report, const struct host_maps_vma *a,
		    const struct host_maps_vma *b)
{
	uint64_t differ = COMPARED(a->flags ^ b->flags);

	if (a->end != b->start || memcmp(a->perms, b->perms, sizeof(a->perms)))
		return;
	if (continues(a, b))
		report->alike++;
	if (!a->detailed || !b->detailed || a->other_flags != b->other_flags)
		return;
	if (!differ)
		count_stuck(report, a, b);
	else if (differ == HOST_MF_DONTCOPY && continues(a, b) &&
		 !((a->flags | b->flags) & HOST_MF_SPECIAL))
		report->joinable++;
}

static void count_one(struct survey *survey, const struct host_maps_vma *vma)
{
	struct host_tally_key key = { .length = vma->end - vma->start };
	int dontcopy = (vma->flags & HOST_MF_DONTCOPY) != 0;

	survey->report->count++;
	survey->report->dontcopy += (uint64_t)dontcopy;
	survey->report->special += (vma->flags & HOST_MF_SPECIAL) != 0;
	survey->detailed += vma->detailed;

	memcpy(key.perms, vma->perms, sizeof(vma->perms));
	host_vma_kind_name(vma, key.kind, sizeof(key.kind));
	host_tally_add(&survey->families, &key, key.length, dontcopy);

	memset(key.perms, 0, sizeof(key.perms));
	key.length = 0;
	host_tally_add(&survey->kinds, &key, vma->end - vma->start, dontcopy);
}

static int survey_file(struct survey *survey, const char *path)
{
	struct host_maps maps;
	struct host_maps_vma vma = { .start = 0 };
	int ret = host_maps_open(&maps, path);

	if (ret)
		return ret;
	while ((ret = host_maps_next(&maps, &vma)) > 0) {
		if (!strcmp(vma.name, "[vsyscall]"))
			continue; /* shown, but no VMA */
		count_one(survey, &vma);
		if (survey->report->count > 1)
			compare(survey->report, &survey->previous, &vma);
		survey->previous = vma;
	}
	host_maps_close(&maps);
	return ret;
}

static int list_kinds(struct survey *survey, size_t top)
{
	struct mrg_vma_report *report = survey->report;
	size_t count = host_tally_sort(&survey->kinds);

	report->nkinds = count < top ? count : top;
	report->kinds = calloc(report->nkinds + 1, sizeof(*report->kinds));
	if (!report->kinds)
		return -ENOMEM;
	for (size_t i = 0; i < report->nkinds; i++) {
		const struct host_tally_entry *from = &survey->kinds.entries[i];
		struct mrg_vma_kind *to = &report->kinds[i];

		memcpy(to->kind, from->key.kind, sizeof(to->kind));
		to->count = from->count;
		to->bytes = from->bytes;
		to->dontcopy = from->dontcopy;
	}
	return 0;
}

static int list_families(struct survey *survey, size_t top)
{
	struct mrg_vma_report *report = survey->report;
	size_t count = host_tally_sort(&survey->families);

	report->nfamilies = count < top ? count : top;
	report->families = calloc(report->nfamilies + 1, sizeof(*report->families));
	if (!report->families)
		return -ENOMEM;
	report->unlisted = report->count;
	for (size_t i = 0; i < report->nfamilies; i++) {
		const struct host_tally_entry *from = &survey->families.entries[i];
		struct mrg_vma_family *to = &report->families[i];

		memcpy(to->kind, from->key.kind, sizeof(to->kind));
		memcpy(to->perms, from->key.perms, sizeof(to->perms));
		to->length = from->key.length;
		to->count = from->count;
		to->dontcopy = from->dontcopy;
		report->unlisted -= from->count;
	}
	return 0;
}

/* What the module sees of a living process replaces what smaps lets guess. */
static void ask_module(struct mrg_dev *dev, pid_t pid, struct mrg_vma_report *report)
{
	struct mrg_vma_counts counts;

	if (mrg_dev_vma(dev, pid, WHOLE_START, WHOLE_END, &counts))
		return;
	report->flags_known = report->exact = true;
	report->dontcopy = counts.dontcopy;
	report->special = counts.special;
	report->joinable = counts.joinable;
	report->stuck_anon = counts.stuck_anon;
	report->stuck_special = counts.stuck_special;
	report->stuck_file = counts.stuck_file;
	report->stuck_other = counts.stuck_other;
}

static int survey_run(struct survey *survey, const char *path, size_t top)
{
	int ret = survey_file(survey, path);

	if (!ret)
		ret = list_kinds(survey, top);
	if (!ret)
		ret = list_families(survey, top);
	if (!ret)
		survey->report->flags_known = survey->report->count &&
					      survey->detailed == survey->report->count;
	return ret;
}

static int make_from_path(const struct mrg_vma_opts *opts, const char *path,
			  struct mrg_vma_report *report)
{
	struct survey survey = { .report = report };
	int ret = host_tally_init(&survey.families, FAMILY_SLOTS);

	if (ret)
		return ret;
	ret = host_tally_init(&survey.kinds, KIND_SLOTS);
	if (!ret) {
		ret = survey_run(&survey, path, opts->top ? opts->top : DEFAULT_TOP);
		host_tally_release(&survey.kinds);
	}
	host_tally_release(&survey.families);
	return ret;
}

static const char *source_path(const struct mrg_vma_opts *opts, char *room, size_t size)
{
	if (opts->smaps)
		return opts->smaps;
	if (opts->maps)
		return opts->maps;
	return process_file(opts->pid, opts->flags & MRG_VMA_NO_SMAPS ? "maps" : "smaps", room,
			    size);
}

static int take_opts(const struct mrg_vma_opts *from, struct mrg_vma_opts *to)
{
	int ret = base_opts_copy(to, sizeof(*to), from);

	if (ret)
		return ret;
	if (to->flags & ~MRG_VMA_NO_SMAPS || to->pid < 0)
		return -EINVAL;
	return 0;
}

static int fill_report(const struct mrg_vma_opts *opts, struct mrg_vma_report *report)
{
	bool live = !opts->maps && !opts->smaps;
	char room[32];
	int ret;

	ret = make_from_path(opts, source_path(opts, room, sizeof(room)), report);
	if (ret)
		return ret;
	report->limit = opts->limit;
	if (live) {
		report->pid = opts->pid ? opts->pid : getpid();
		if (opts->dev)
			ask_module(opts->dev, opts->pid, report);
		if (!report->limit)
			mrg_vma_limit(&report->limit);
	}
	host_vma_judge(report);
	return 0;
}

int mrg_vma_report_make(const struct mrg_vma_opts *given, struct mrg_vma_report **out)
{
	struct mrg_vma_report *report;
	struct mrg_vma_opts opts;
	int ret = take_opts(given, &opts);

	if (ret)
		return ret;
	report = calloc(1, sizeof(*report));
	if (!report)
		return -ENOMEM;
	ret = fill_report(&opts, report);
	if (ret)
		mrg_vma_report_free(report);
	else
		*out = report;
	return ret;
}

void mrg_vma_report_free(struct mrg_vma_report *report)
{
	if (!report)
		return;
	free(report->kinds);
	free(report->families);
	free(report);
}
