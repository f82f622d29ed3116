/* SPDX-License-Identifier: MIT */
/*
 * Why a registration failed: from the errno, the call and the state of the
 * process, by each cause's own evidence.  See mrguard-explain(1).
 */
#ifndef MRGUARD_EXPLAIN_H
#define MRGUARD_EXPLAIN_H

#include <sys/types.h>
#include <mrguard/common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mrg_dev;

/** enum mrg_call - the call that failed */
enum mrg_call {
	MRG_CALL_REG_MR, /* ibv_reg_mr() and its like, of ordinary memory */
	MRG_CALL_REG_DMABUF_MR,
	MRG_CALL_CREATE_QP,
	MRG_CALL_CREATE_CQ,
	MRG_CALL_MMAP,
	MRG_CALL_MADVISE,
};

/**
 * enum mrg_cause - what one errno can stand for
 * @MRG_CAUSE_VMA_LIMIT: vm.max_map_count: madvise() gives EAGAIN, mmap() ENOMEM
 * @MRG_CAUSE_MEMLOCK: RLIMIT_MEMLOCK of the process, against what the kernel
 *	holds pinned for it (VmPin); counts once for each device
 * @MRG_CAUSE_MR_SIZE: the device's largest MR
 * @MRG_CAUSE_KEYS: the device has no keys left
 * @MRG_CAUSE_HOLE: part of the range is not mapped, or not open to access
 * @MRG_CAUSE_HUGE_PAGE: the range, or the largest MR, cuts huge pages
 * @MRG_CAUSE_DEVICE_MEMORY: GPU or other device memory, which the kernel does
 *	not pin by its address
 * @MRG_CAUSE_DMABUF_SIZE: the DMA-BUF ends before the range does
 * @MRG_CAUSE_PAGE_OFFSET: address and offset in the DMA-BUF differ in a page
 * @MRG_CAUSE_DMABUF_SUPPORT: provider, kernel or driver lack DMA-BUF MRs
 * @MRG_CAUSE_EXPORTER: the DMA-BUF's exporter refuses this device
 * @MRG_CAUSE_CGROUP: rdma.max of the process's cgroup, or of one above it
 * @MRG_CAUSE_FILE_MAPPING: a shared writable mapping of a file, which kernels from
 *	6.5 on do not pin for long
 */
enum mrg_cause {
	MRG_CAUSE_VMA_LIMIT,
	MRG_CAUSE_MEMLOCK,
	MRG_CAUSE_MR_SIZE,
	MRG_CAUSE_KEYS,
	MRG_CAUSE_HOLE,
	MRG_CAUSE_HUGE_PAGE,
	MRG_CAUSE_DEVICE_MEMORY,
	MRG_CAUSE_DMABUF_SIZE,
	MRG_CAUSE_PAGE_OFFSET,
	MRG_CAUSE_DMABUF_SUPPORT,
	MRG_CAUSE_EXPORTER,
	MRG_CAUSE_CGROUP,
	MRG_CAUSE_FILE_MAPPING,
	MRG_CAUSES,
};

/** enum mrg_likelihood - in the order in which findings are listed */
enum mrg_likelihood {
	MRG_IS, /* the evidence fits */
	MRG_MAY_BE, /* nothing speaks against it */
	MRG_NOT_SEEN, /* the evidence was not given, or cannot be read */
	MRG_IS_NOT,
};

/**
 * struct mrg_finding - one cause, weighed
 * @text:	one sentence, with value and limit
 * @remedy:	one sentence; "" for MRG_IS_NOT
 */
struct mrg_finding {
	enum mrg_cause cause;
	enum mrg_likelihood likelihood;
	char text[256];
	char remedy[256];
};

/** struct mrg_explanation - all causes, likeliest first, and what it comes to */
struct mrg_explanation {
	struct mrg_finding findings[MRG_CAUSES];
	char summary[320];
};

/**
 * struct mrg_explain_opts - what failed, and what is known of it
 * @size:	sizeof(struct mrg_explain_opts)
 * @call:	see enum mrg_call
 * @error:	errno, positive
 * @pid:	the process that got it; 0 = the caller
 * @devices:	how many devices the buffer is registered on; 0 = 1
 * @addr, @length: the range, bytes; @length 0 = not known, @addr 0 likewise
 * @page_size:	the huge page that the range lies in, bytes; 0: it is looked up
 * @device:	RDMA device to be asked for its limits and its MRs; NULL = none
 * @max_mr_size: the device's largest MR, bytes; 0 = @device is asked, or not
 *		known
 * @mrs, @max_mrs: MRs in use and the most there can be; @max_mrs 0 likewise
 * @dev:	the module, for a count of VMAs in O(1); may be NULL
 * @proc:	a copy of /proc to read from; NULL = /proc
 * @offset:	where @addr lies in the DMA-BUF, bytes; known if it, or
 *		@dmabuf_size, is not 0
 * @dmabuf_size: of the DMA-BUF, bytes ("size:" of /proc/PID/fdinfo/FD); 0 = not
 *		known
 */
struct mrg_explain_opts {
	size_t size;
	enum mrg_call call;
	int error;
	pid_t pid;
	uint32_t devices;
	uint64_t addr;
	uint64_t length;
	uint64_t page_size;
	const char *device;
	uint64_t max_mr_size;
	uint64_t mrs;
	uint64_t max_mrs;
	struct mrg_dev *dev;
	const char *proc;
	uint64_t offset;
	uint64_t dmabuf_size;
};

/**
 * mrg_explain() - weigh each cause
 * @explanation: OUT
 *
 * Judges the process by its own limits, not by those of the caller.  What it
 * sees is the state of now: call it soon after the failure.  Of its own process
 * it also asks the GPU drivers that are loaded there (see mrg_gpu_classify()).
 *
 * Return: 0; -EINVAL (options malformed, error not positive, no such call);
 * -ESRCH (no such process); -EMFILE, -EACCES and others of open(2) (its
 * procfs cannot be read).  Any thread.
 */
MRG_API int mrg_explain(const struct mrg_explain_opts *opts, struct mrg_explanation *explanation);

/** mrg_cause_name() - "VMA limit", "memlock", "MR size", "device keys", "hole",
 *  "huge pages", "device memory", "DMA-BUF size", "page offsets",
 *  "DMA-BUF support", "exporter", "rdma cgroup", "file mapping" */
MRG_API const char *mrg_cause_name(enum mrg_cause cause);
/** mrg_likelihood_name() - "this", "may be", "not seen", "not this" */
MRG_API const char *mrg_likelihood_name(enum mrg_likelihood likelihood);
/** mrg_call_name() - "ibv_reg_mr", "mmap", ... */
MRG_API const char *mrg_call_name(enum mrg_call call);
/** mrg_call_parse() - the reverse; -EINVAL for others */
MRG_API int mrg_call_parse(const char *name, enum mrg_call *call);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_EXPLAIN_H */
