/* SPDX-License-Identifier: MIT */
/*
 * What the guard knows of a process: one memory file (memfd) a process, which
 * `mrguard run --status' maps through /proc/PID/fd.  Whoever may open that may
 * read it: the same user.
 *
 * It is written without locks, so that a signal handler, a thread that ends and
 * a reader in another process meet nothing half done that matters.
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

#define GUARD_FILE "mrguard-guard" /* the memory file's name */
#define GUARD_MAGIC 0x3164726175676d72ULL /* "rmguard1" */

/* Live MRs are found by their pointer: sets of so many places each. */
#define GUARD_SETS 4096u
#define GUARD_WAYS 8u
#define GUARD_RECORDS (GUARD_SETS * GUARD_WAYS)
#define GUARD_EVENTS 64u

enum guard_call {
	GUARD_REG_MR,
	GUARD_REG_MR_IOVA,
	GUARD_REG_MR_IOVA2,
	GUARD_REG_DMABUF_MR,
	GUARD_REG_MR_EX,
	GUARD_MLX5_REG_DMABUF_MR,
	GUARD_REREG_MR,
	GUARD_CALLS,
};

/* How the memory comes to the device. */
enum guard_path {
	GUARD_HOST,
	GUARD_PEERMEM,
	GUARD_HOST_OR_PEERMEM, /* a peermem module is loaded, and nothing tells */
	GUARD_DMABUF,
	GUARD_PATHS,
};

#define GUARD_VERDICTS (MRG_VERDICT_UNKNOWN + 1)

/* Why a verdict is what it is; report.c has the words. */
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
	GUARD_NOT_JUDGED, /* no memory, or inside a signal handler */
	GUARD_GROUNDS,
};

enum guard_action { GUARD_OBSERVE, GUARD_REFUSE, GUARD_ALLOW };

/* What became of a registration that did not just pass. */
enum guard_event_kind {
	GUARD_EVENT_REFUSED, /* by the guard */
	GUARD_EVENT_LET_PASS, /* by policy */
	GUARD_EVENT_NO_ROOM, /* too few VMAs left */
	GUARD_EVENT_FAILED, /* by verbs */
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
	uint8_t page_shift;
	uint8_t reserved[3];
};

struct guard_event {
	_Atomic uint32_t ready;
	_Atomic uint32_t times; /* that the same came */
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
	uint64_t magic;
	uint32_t size;
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
	struct guard_tally gone;
	struct guard_tally refused;
	struct guard_tally let_pass;
	struct guard_tally no_room;
	struct guard_tally failed;
	_Atomic uint64_t calls[GUARD_CALLS];
	_Atomic uint64_t unlisted; /* MRs that found no place in the table */
	_Atomic uint64_t unseen; /* bindings that could not be guarded */

	/* VMAs: at the first registration, now, and the most that were seen. */
	_Atomic uint64_t vma_first;
	_Atomic uint64_t vma_last;
	_Atomic uint64_t vma_peak;
	_Atomic uint64_t vma_limit;

	_Atomic uint32_t events; /* different ones; the first are kept */
	struct guard_event event[GUARD_EVENTS];

	_Atomic uint64_t key[GUARD_RECORDS];
	struct guard_record record[GUARD_RECORDS];
};

/* Low bits of a key; an MR's pointer has none. */
#define GUARD_KEY_GONE 1ULL /* the MR was deregistered */
#define GUARD_KEY_BUSY 2ULL /* the place is being filled */

/** guard_put() - list a new MR.  A place that @mr still has is taken over: the
 *  MR ended with its device.  Return: false where no place is left. */
bool guard_put(struct guard_state *state, const void *mr, const struct guard_record *record);

/** guard_take() - mark an MR as gone, right before it is: afterwards its
 *  pointer may be another's.  Return: its place, or -1. */
ssize_t guard_take(struct guard_state *state, const void *mr, struct guard_record *record);
/** guard_put_back() - it is not gone after all */
void guard_put_back(struct guard_state *state, const void *mr, ssize_t place);

/** guard_find() - the record of a live MR, or NULL */
struct guard_record *guard_find(struct guard_state *state, const void *mr);

/** guard_live() - whether a place holds a live MR, which is copied out */
bool guard_live(const struct guard_state *state, size_t place, struct guard_record *record);

static inline void guard_count(struct guard_tally *tally, uint64_t bytes)
{
	atomic_fetch_add_explicit(&tally->count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&tally->bytes, bytes, memory_order_relaxed);
}

#endif
