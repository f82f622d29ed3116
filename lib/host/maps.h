/* SPDX-License-Identifier: MIT */
/* Reads /proc/PID/maps and /proc/PID/smaps, or files of that form, as a
 * stream: memory does not grow with their length. */
#ifndef HOST_MAPS_H
#define HOST_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Flags of smaps' VmFlags line that this library reasons about. */
#define MRG_MF_DONTCOPY		(1ULL << 0)	/* dc */
#define MRG_MF_SOFTDIRTY	(1ULL << 1)	/* sd */
#define MRG_MF_IO		(1ULL << 2)	/* io */
#define MRG_MF_DONTEXPAND	(1ULL << 3)	/* de */
#define MRG_MF_PFNMAP		(1ULL << 4)	/* pf */
#define MRG_MF_MIXEDMAP		(1ULL << 5)	/* mm */
#define MRG_MF_HUGETLB		(1ULL << 6)	/* ht */
#define MRG_MF_SHARED		(1ULL << 7)	/* sh */
#define MRG_MF_WRITE		(1ULL << 8)	/* wr */
/* The kernel's VM_SPECIAL: such VMAs are never merged. */
#define MRG_MF_SPECIAL \
	(MRG_MF_IO | MRG_MF_DONTEXPAND | MRG_MF_PFNMAP | MRG_MF_MIXEDMAP)

#define MRG_MAPS_NAME_MAX 256

/**
 * struct mrg_maps_vma - one VMA, as /proc shows it
 * @dev: major << 20 | minor
 * @perms: "rw-p"
 * @name: what stands last on the line, "" where there is nothing; cut at
 *	MRG_MAPS_NAME_MAX
 * @detailed: the rest is known (smaps)
 * @flags: MRG_MF_*
 * @other_flags: stands for all other flags; equal where they are equal
 * @page_size: bytes
 * @anon: bytes of anonymous pages present
 */
struct mrg_maps_vma {
	uint64_t start;
	uint64_t end;
	uint64_t offset;
	uint64_t inode;
	uint32_t dev;
	char perms[5];
	bool detailed;
	uint64_t flags;
	uint64_t other_flags;
	uint64_t page_size;
	uint64_t anon;
	char name[MRG_MAPS_NAME_MAX];
};

struct mrg_maps {
	int fd;
	bool eof;
	size_t head;
	size_t tail;
	uint64_t line;		/* of the last line read, for messages */
	char *buf;
};

/** mrg_maps_open() - open @path; -ENOMEM, -errno of open(2) */
int mrg_maps_open(struct mrg_maps *maps, const char *path);
void mrg_maps_close(struct mrg_maps *maps);
/** mrg_maps_next() - the next VMA.  Return: 1; 0 at the end; -EBADMSG (a line
 *  that is none of maps or smaps); -errno of read(2) */
int mrg_maps_next(struct mrg_maps *maps, struct mrg_maps_vma *vma);

/** mrg_maps_count() - lines of /proc/@pid/maps (0 = self) less the vsyscall
 *  page, which is no VMA; -errno of open(2) and read(2) */
ssize_t mrg_maps_count(pid_t pid);

#endif
