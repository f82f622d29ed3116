/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include <mrguard/explain.h>

const char *mrg_cause_name(enum mrg_cause cause)
{
	static const char *const names[MRG_CAUSES] = {
		[MRG_CAUSE_VMA_LIMIT] = "VMA limit",
		[MRG_CAUSE_MEMLOCK] = "memlock",
		[MRG_CAUSE_MR_SIZE] = "MR size",
		[MRG_CAUSE_KEYS] = "device keys",
		[MRG_CAUSE_HOLE] = "hole",
		[MRG_CAUSE_HUGE_PAGE] = "huge pages",
		[MRG_CAUSE_DEVICE_MEMORY] = "device memory",
		[MRG_CAUSE_DMABUF_SIZE] = "DMA-BUF size",
		[MRG_CAUSE_PAGE_OFFSET] = "page offsets",
		[MRG_CAUSE_DMABUF_SUPPORT] = "DMA-BUF support",
		[MRG_CAUSE_EXPORTER] = "exporter",
		[MRG_CAUSE_CGROUP] = "rdma cgroup",
		[MRG_CAUSE_FILE_MAPPING] = "file mapping",
	};

	return cause < MRG_CAUSES ? names[cause] : "unknown";
}

const char *mrg_likelihood_name(enum mrg_likelihood likelihood)
{
	switch (likelihood) {
	case MRG_IS:
		return "this";
	case MRG_MAY_BE:
		return "may be";
	case MRG_NOT_SEEN:
		return "not seen";
	case MRG_IS_NOT:
		return "not this";
	}
	return "unknown";
}

static const char *const call_names[] = {
	[MRG_CALL_REG_MR] = "ibv_reg_mr",
	[MRG_CALL_REG_DMABUF_MR] = "ibv_reg_dmabuf_mr",
	[MRG_CALL_CREATE_QP] = "ibv_create_qp",
	[MRG_CALL_CREATE_CQ] = "ibv_create_cq",
	[MRG_CALL_MMAP] = "mmap",
	[MRG_CALL_MADVISE] = "madvise",
};
#define CALLS (sizeof(call_names) / sizeof(call_names[0]))

const char *mrg_call_name(enum mrg_call call)
{
	return call < CALLS ? call_names[call] : "unknown";
}

int mrg_call_parse(const char *name, enum mrg_call *call)
{
	for (size_t i = 0; i < CALLS; i++) {
		if (strcmp(name, call_names[i]))
			continue;
		*call = (enum mrg_call)i;
		return 0;
	}
	return -EINVAL;
}
