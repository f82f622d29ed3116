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
#define HOST_MF_DONTCOPY (1ULL << 0) /* dc */
#define HOST_MF_SOFTDIRTY (1ULL << 1) /* sd */
#define HOST_MF_IO (1ULL << 2) /* io */
#define HOST_MF_DONTEXPAND (1ULL << 3) /* de */
#define HOST_MF_PFNMAP (1ULL << 4) /* pf */
#define HOST_MF_MIXEDMAP (1ULL << 5) /* mm */
#define HOST_MF_HUGETLB (1ULL << 6) /* ht */
#define HOST_MF_SHARED (1ULL << 7) /* sh */
#define HOST_MF_WRITE (1ULL << 8) /* wr */
/* The kernel's VM_SPECIAL: such VMAs are never merged. */
#define HOST_MF_SPECIAL (HOST_MF_IO | HOST_MF_DONTEXPAND | HOST_MF_PFNMAP | HOST_MF_MIXEDMAP)

#define HOST_MAPS_NAME_MAX 256

/**
 * struct host_maps_vma - one VMA, as /proc shows it
 * @dev: major << 20 | minor
 * @perms: "rw-p"
 * @name: what stands last on the line, "" where there is nothing; cut at
 *	HOST_MAPS_NAME_MAX
 * @detailed: the rest is known (smaps)
 * @flags: MRG_MF_*
 * @other_flags: stands for all other flags; equal where they are equal
 * @page_size: bytes; 0: not known
 * @anon: bytes of anonymous pages present
 */
struct host_maps_vma {
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
	char name[HOST_MAPS_NAME_MAX];
};

struct host_maps {
	int fd;
	bool eof;
	size_t head;
	size_t tail;
	uint64_t line; /* of the last line read, for messages */
	char *buf;
};

/** host_maps_open() - open @path; -ENOMEM, -errno of open(2) */
int host_maps_open(struct host_maps *maps, const char *path);
void host_maps_close(struct host_maps *maps);
/** host_maps_next() - the next VMA.  Return: 1; 0 at the end; -EBADMSG (a line
 *  that is not from maps or smaps); -errno of read(2) */
int host_maps_next(struct host_maps *maps, struct host_maps_vma *vma);

/**
 * host_maps_query() - the VMA that holds @addr, by PROCMAP_QUERY (Linux 6.11)
 * @fd:	of /proc/PID/maps
 * @vma: OUT, with the page size and without a name
 *
 * Return: 0; -ENOENT: nothing is mapped there; -ENOTTY: an older kernel;
 * -errno.
 */
int host_maps_query(int fd, uint64_t addr, struct host_maps_vma *vma);

/** host_maps_count() - lines of a maps file less the vsyscall page, which is no
 *  VMA; -errno of open(2) and read(2) */
ssize_t host_maps_count(const char *path);

/**
 * host_maps_page_size() - the largest page of the mappings in a range
 * @path: of smaps, for which the kernel walks the page tables of all mappings
 *	before the range: it is dear
 *
 * Return: bytes; 0: not known.
 */
uint64_t host_maps_page_size(const char *path, uint64_t addr, uint64_t length);

#endif
