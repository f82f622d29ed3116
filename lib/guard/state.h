/* SPDX-License-Identifier: MIT */
/*
 * What the guard knows about a process: one memory file (memfd) a process.
 * `mrguard run --status' maps it through /proc/PID/fd, which the kernel allows
 * the same user and root.
 *
 * It is written without locks, so that a signal handler, a thread that ends and
 * a reader in another process never wait, and never use half an entry.
 */
#ifndef GUARD_STATE_H
#define GUARD_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <mrguard/fork.h>
#include <mrguard/plan.h>

#include "guard/calls.h"

#define GUARD_FILE "mrguard-guard" /* the memory file's name */

/*
 * The file begins with these eight bytes, in the order of the machine; the last
 * is the version of all that follows.  Version 1 was '1', in release 0.1.
 */
#define GUARD_STATE_MAGIC 0x64726175676d72ULL /* "rmguard" */
#define GUARD_STATE_VERSION 2u
#define GUARD_STATE_MARK (GUARD_STATE_MAGIC | (uint64_t)('0' + GUARD_STATE_VERSION) << 56)

/* Live MRs are found by their pointer: sets of so many places each. */
#define GUARD_SETS 4096u
#define GUARD_WAYS 8u
#define GUARD_RECORDS (GUARD_SETS * GUARD_WAYS)
#define GUARD_EVENTS 64u

/* How the device reaches the memory. */
enum guard_path {
	GUARD_HOST,
	GUARD_PEERMEM,
	GUARD_HOST_OR_PEERMEM, /* a peermem module is loaded, and its memory is not told apart */
	GUARD_DMABUF,
	GUARD_PATHS,
};

#define GUARD_VERDICTS (MRG_VERDICT_UNKNOWN + 1)

/* Why a verdict is what it is; names.c has the sentences. */
enum guard_grounds {
	GUARD_WALK_EXACT,
	GUARD_ONE_WINDOW,
	GUARD_ON_DEMAND,
	GUARD_SMALL_PAGES,
	GUARD_SCATTERED,
	GUARD_MAY_JOIN,
	GUARD_DEVICE_MEMORY,
	GUARD_LAYOUT,
	GUARD_LAYOUT_CHANGES,
	GUARD_NO_MODULE,
	GUARD_NO_FEATURE,
	GUARD_NO_IMPORTER,
	GUARD_LAYOUT_FAILED,
	GUARD_KERNEL_REFUSES,
	GUARD_CAPPED,
	GUARD_NOT_JUDGED, /* no memory, or inside a signal handler */
	GUARD_GROUNDS,
};

enum guard_action { GUARD_OBSERVE, GUARD_REFUSE, GUARD_ALLOW };

/* A registration that is worth a line of the report. */
enum guard_event_kind {
	GUARD_EVENT_REFUSED, /* by the guard */
	GUARD_EVENT_ALLOWED, /* at risk or unknown, and made by policy */
	GUARD_EVENT_NO_VMAS, /* too few are left */
	GUARD_EVENT_FAILED, /* verbs failed */
};

enum guard_fork {
	GUARD_FORK_NOT_ASKED, /* the program never asked for protection */
	GUARD_FORK_SKIPPED,
	GUARD_FORK_PASSED_ON,
};

/* One MR. */
struct guard_record {
	uint64_t addr; /* of the memory; 0 for a DMA-BUF */
	uint64_t iova;
	uint64_t length;
	uint64_t offset; /* in the DMA-BUF */
	uint64_t ns; /* since the start */
	uint32_t number; /* counted from 1 */
	uint32_t lkey;
	uint8_t call;
	uint8_t path;
	uint8_t verdict;
	uint8_t grounds;
	uint8_t page_shift; /* 0: not known */
	uint8_t reserved[3];
};

struct guard_event {
	_Atomic uint32_t ready; /* 1: all other fields are written */
	_Atomic uint32_t times; /* how often the same happened */
	uint32_t kind;
	uint32_t call;
	uint32_t verdict;
	int32_t error; /* errno that the program got; 0: none */
	int32_t fd; /* -1: ordinary memory */
	uint64_t addr;
	uint64_t iova;
	uint64_t length;
	uint64_t offset;
	uint64_t ns;
	char cause[640];
	char remedy[320];
};

struct guard_tally {
	_Atomic uint64_t count;
	_Atomic uint64_t bytes;
};

struct guard_state {
	_Atomic uint64_t mark; /* GUARD_STATE_MARK; 0 until the fields up to @fork are set */
	uint32_t size; /* of all */
	int32_t pid;
	uint64_t start_ns; /* CLOCK_MONOTONIC_COARSE */
	char program[16];

	uint32_t at_risk; /* enum guard_action */
	uint32_t unknown;
	int32_t module_error; /* 0: /dev/mrguard is in use; else -errno */
	uint32_t walk; /* enum mrg_walk */
	uint32_t kernel_copies; /* enum mrg_kernel_copies */
	_Atomic uint32_t fork; /* enum guard_fork */

	struct guard_tally made[GUARD_PATHS][GUARD_VERDICTS];
	struct guard_tally deregistered;
	struct guard_tally refused;
	struct guard_tally allowed;
	struct guard_tally no_vmas;
	struct guard_tally failed;
	_Atomic uint64_t calls[GUARD_REGISTRATIONS];
	_Atomic uint64_t unlisted; /* MRs that found no place in the table */
	_Atomic uint64_t unguarded; /* look-ups by name for which no entry was left */

	/* VMAs: at the first registration, now, and the largest count of all. */
	_Atomic uint64_t vma_first;
	_Atomic uint64_t vma_last;
	_Atomic uint64_t vma_peak;
	_Atomic uint64_t vma_limit;

	_Atomic uint32_t events; /* different ones; the first GUARD_EVENTS are kept */
	struct guard_event event[GUARD_EVENTS];

	_Atomic uint64_t key[GUARD_RECORDS];
	struct guard_record record[GUARD_RECORDS];
};

_Static_assert(sizeof(struct guard_state) == 2163776,
	       "another layout needs another GUARD_STATE_VERSION");

static inline void guard_count(struct guard_tally *tally, uint64_t bytes)
{
	atomic_fetch_add_explicit(&tally->count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&tally->bytes, bytes, memory_order_relaxed);
}

#endif
