/* SPDX-License-Identifier: MIT */
/*
 * The VMAs of a process: how many of vm.max_map_count, of what kind, which can
 * merge again and which never will.  See mrguard-vma(1).
 *
 * Any function may be called from any thread; a report is read-only.
 */
#ifndef MRGUARD_VMA_H
#define MRGUARD_VMA_H

#include <stdbool.h>
#include <sys/types.h>
#include <mrguard/common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mrg_dev;

/**
 * mrg_vma_count() - VMAs that a process holds, as the kernel counts them
 * @dev: the module: O(1); NULL: the lines of /proc/PID/maps are counted, which
 *	takes 13 ms at 60,000 VMAs
 * @pid: 0 = the caller
 * @count: OUT
 *
 * Return: 0; -ESRCH, -ENOENT (no such process); -EPERM, -EACCES (not the
 * caller's to look at); -errno of open(2) and read(2).
 */
MRG_API int mrg_vma_count(struct mrg_dev *dev, pid_t pid, uint64_t *count);

/** mrg_vma_limit() - vm.max_map_count.  Return: 0; -errno of open(2) and
 *  read(2); -EBADMSG. */
MRG_API int mrg_vma_limit(uint64_t *limit);

/**
 * struct mrg_vma_kind - all VMAs of one kind
 * @kind: "anonymous", "heap", "stack", "shared anonymous", "hugetlb",
 *	"memfd:NAME", or the path of the file; digits that tell one file from its
 *	like are replaced by "*"
 * @count:	VMAs
 * @bytes:	their sizes
 * @dontcopy:	of these, with VM_DONTCOPY
 */
struct mrg_vma_kind {
	char kind[96];
	uint64_t count;
	uint64_t bytes;
	uint64_t dontcopy;
	uint64_t reserved[2]; /* 0 */
};

/**
 * struct mrg_vma_family - VMAs alike; thousands of one exact size are a
 * fingerprint of the code that maps or registers them
 * @length:	bytes of each
 * @count:	VMAs
 * @dontcopy:	of these, with VM_DONTCOPY
 */
struct mrg_vma_family {
	char kind[96];
	char perms[5];
	uint64_t length;
	uint64_t count;
	uint64_t dontcopy;
	uint64_t reserved[2]; /* 0 */
};

/** enum mrg_vma_state - how near the limit is */
enum mrg_vma_state {
	MRG_VMA_FAR, /* below half of it */
	MRG_VMA_HIGH, /* at half of it */
	MRG_VMA_NEAR, /* at 90% of it */
};

/**
 * struct mrg_vma_report - the VMAs of a process
 * @pid:	0 for files
 * @count:	VMAs as the kernel counts them
 * @limit:	vm.max_map_count; 0 = not known
 * @flags_known: the counts from @dontcopy on are known (smaps or module)
 * @exact:	the pairs were counted by the module, which sees each VMA's
 *		anon_vma; else @joinable is an upper bound, and a pair whose
 *		memory policies differ is counted in @stuck_anon
 * @dontcopy:	VMAs with VM_DONTCOPY
 * @special:	VMAs that never merge by nature (devices, hugetlb)
 * @joinable:	neighbours that differ in VM_DONTCOPY alone: merge once it goes
 * @stuck_anon, @stuck_special, @stuck_file, @stuck_other: neighbours with equal
 *		flags that never merge, and why; see MRG_IOC_VMA in mrguard(4)
 * @alike:	neighbours of equal permissions, and for files of continuing
 *		offset: all that a cut by fork protection can have left behind
 * @kinds, @nkinds: by count, highest first
 * @families, @nfamilies: the same
 * @unlisted:	VMAs that are in no family listed
 * @state:	see enum mrg_vma_state
 * @fork_pieces: VMAs that exist because of fork protection, as far as is
 *		known
 * @verdict, @remedy: for people
 */
struct mrg_vma_report {
	pid_t pid;
	bool flags_known;
	bool exact;
	uint64_t count;
	uint64_t limit;
	uint64_t dontcopy;
	uint64_t special;
	uint64_t joinable;
	uint64_t stuck_anon;
	uint64_t stuck_special;
	uint64_t stuck_file;
	uint64_t stuck_other;
	uint64_t alike;
	struct mrg_vma_kind *kinds;
	size_t nkinds;
	struct mrg_vma_family *families;
	size_t nfamilies;
	uint64_t unlisted;
	uint64_t fork_pieces;
	enum mrg_vma_state state;
	char verdict[320];
	char remedy[256];
	uint64_t reserved[4]; /* 0 */
};

#define MRG_VMA_NO_SMAPS (1u << 0) /* read maps alone: much faster, no flags */

/**
 * struct mrg_vma_opts - what to look at
 * @size:	sizeof(struct mrg_vma_opts)
 * @flags:	MRG_VMA_*
 * @pid:	the process; 0 = the caller
 * @maps, @smaps: files in the form of /proc/PID/maps and /proc/PID/smaps; with
 *		either, no process is looked at
 * @dev:	the module, for exact counts of a process; may be NULL
 * @limit:	vm.max_map_count where the files come from; 0 = of this host for
 *		a process, not known for files
 * @top:	kinds and families to list; 0 = 16
 */
struct mrg_vma_opts {
	size_t size;
	uint32_t flags;
	pid_t pid;
	const char *maps;
	const char *smaps;
	struct mrg_dev *dev;
	uint64_t limit;
	size_t top;
};

/**
 * mrg_vma_report_make() - look at a process, or at files
 * @opts: NULL: the caller's own process
 * @report: OUT, to be freed with mrg_vma_report_free()
 *
 * Memory is bounded (some 3 MiB), however long the files are.
 *
 * Return: 0; -EINVAL (@opts); -EBADMSG (a line that is not from maps or smaps);
 * -ENOMEM; -ENOENT (no such process or file); -EACCES (not the caller's to look
 * at); -errno of open(2) and read(2).
 */
MRG_API int mrg_vma_report_make(const struct mrg_vma_opts *opts, struct mrg_vma_report **report);
/** mrg_vma_report_free() - NULL is allowed */
MRG_API void mrg_vma_report_free(struct mrg_vma_report *report);

/** struct mrg_vma_sample - a count, and when it was seen (any monotonic clock) */
struct mrg_vma_sample {
	uint64_t ns;
	uint64_t count;
	uint64_t reserved[2]; /* 0 */
};

/**
 * struct mrg_vma_forecast - where a count is going
 * @per_minute:	the rate, by least squares over the samples
 * @rising:	the rate stands out from the samples' scatter
 * @seconds_left: until @limit is reached at that rate; 0 if it is reached,
 *		negative if the count is not rising
 */
struct mrg_vma_forecast {
	double per_minute;
	bool rising;
	double seconds_left;
	uint64_t reserved[2]; /* 0 */
};

/**
 * mrg_vma_forecast() - time to exhaustion
 * @samples: in order of time
 *
 * Return: 0; -EINVAL (a reserved word that is not zero); -ENODATA (fewer than
 * two samples, or all of one time).
 */
MRG_API int mrg_vma_forecast(const struct mrg_vma_sample *samples, size_t count, uint64_t limit,
			     struct mrg_vma_forecast *out);

/**
 * struct mrg_headroom - VMAs left to a process that registers memory
 * @count:	VMAs now
 * @limit:	vm.max_map_count
 * @floor:	VMAs that a registration leaves free, or is refused
 * @samples:	how many the forecast rests on; below 2 there is none
 * @forecast:	see struct mrg_vma_forecast
 */
struct mrg_headroom {
	uint64_t count;
	uint64_t limit;
	uint64_t floor;
	size_t samples;
	struct mrg_vma_forecast forecast;
	uint64_t reserved[2]; /* 0 */
};

/** mrg_vma_state_name() - "far", "high", "near" */
MRG_API const char *mrg_vma_state_name(enum mrg_vma_state state);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_VMA_H */
