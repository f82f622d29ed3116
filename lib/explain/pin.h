/* SPDX-License-Identifier: MIT */
/* Whether the kernel can pin a range of a process's memory, and what stands in
 * the way.  Internal to the library. */
#ifndef EXPLAIN_PIN_H
#define EXPLAIN_PIN_H

#include <stdbool.h>

#include <mrguard/gpu.h>

/* The first thing in the range that pinning stops at. */
enum explain_pin_fault {
	PIN_NONE,
	PIN_UNMAPPED,
	PIN_NO_ACCESS, /* PROT_NONE */
	PIN_READ_ONLY,
	PIN_DEVICE, /* a mapping of a device */
	PIN_UNREADABLE, /* maps cannot be read; explain_pin_read() never sets it */
};

/* The older way to GPU memory, a module between driver and RDMA core. */
enum explain_pin_peermem {
	PEERMEM_ABSENT,
	PEERMEM_IDLE, /* loaded, but not linked to the RDMA core */
	PEERMEM_LINKED,
};

enum explain_answer { EXPLAIN_UNKNOWN, EXPLAIN_NO, EXPLAIN_YES };

/*
 * struct explain_pin_facts - what is known of a range
 * @gpu_driver:	the process has a GPU driver's library mapped, so an address
 *		without a CPU mapping may be a device pointer
 * @at:		where @fault is
 * @name:	the mapping's, of PIN_DEVICE; "" where it has none
 * @kind:	as a driver told; MRG_MEM_UNKNOWN where none was asked or knows it
 * @unflagged:	the driver calls it not RDMA-capable
 * @chunks:	of VMM memory
 * @end:	where the allocation ends inside the range; 0 = it does not
 * @file_at, @file_name, @file_fs: the first shared writable mapping of a file that
 *	is written back, and its file system; name "" if there is none, fs ""
 *	where it is not known
 * @file_refused: whether this kernel refuses to pin that for long
 */
struct explain_pin_facts {
	uint64_t addr;
	uint64_t length;
	enum explain_pin_fault fault;
	uint64_t at;
	char name[64];
	bool gpu_driver;
	enum explain_pin_peermem peermem;
	enum mrg_mem_kind kind;
	bool unflagged;
	size_t chunks;
	uint64_t end;
	uint64_t file_at;
	char file_name[64];
	char file_fs[32];
	uint32_t file_dev;
	enum explain_answer file_refused;
};

/**
 * explain_pin_read() - what /proc tells of a range
 * @proc: "/proc", or a copy
 * @process: "self", "4711"
 * @need_write: whether a read-only mapping is a fault
 * @facts: OUT; what drivers tell stays zero
 *
 * Return: 0; -errno where maps cannot be read.
 */
int explain_pin_read(const char *proc, const char *process, uint64_t addr, uint64_t length,
		     bool need_write, struct explain_pin_facts *facts);

/*
 * Asks the GPU drivers whose libraries this process has loaded already; none
 * is loaded or initialised by it.
 */
void explain_pin_ask_drivers(struct explain_pin_facts *facts);
void explain_pin_ask_gpu(struct mrg_gpu *gpu, struct explain_pin_facts *facts);

/* Whether it is memory on a GPU, as a driver told. */
static inline bool explain_pin_on_gpu(const struct explain_pin_facts *facts)
{
	return facts->kind >= MRG_MEM_CUDA;
}

#endif
