/* SPDX-License-Identifier: MIT */
/* What an explanation rests on.  Internal to the library. */
#ifndef EXPLAIN_EXPLAIN_H
#define EXPLAIN_EXPLAIN_H

#include <stdbool.h>

#include <mrguard/explain.h>

#include "explain/pin.h"
#include "host/limits.h"
#include "host/vma_verdict.h"

/*
 * What the rdma controller of its cgroups tells.
 * @known: the group is, up to the top
 * @limited: a group has an rdma.max
 * @full: @device has no object left in @group
 */
struct explain_cgroup {
	bool known, limited, full;
	char group[128];
	char device[64];
	uint64_t current, max;
};

/** explain_read_cgroup() - read them; @device NULL: any */
void explain_read_cgroup(const char *proc, const char *process, const char *device,
			 struct explain_cgroup *facts);

/* What /proc tells of the process. */
struct explain_process_facts {
	struct host_limits limits;

	struct explain_cgroup cgroup;
	uint64_t base_page; /* bytes; 0: not known */

	bool range_known;
	struct explain_pin_facts pin;
	uint64_t page_size; /* largest in the range; 0: not looked up */
};

/* Return: 0; -ESRCH. */
int explain_read_process(const struct mrg_explain_opts *opts, struct explain_process_facts *facts);

/*
 * Fills in what @opts lacks of the device's limits, where it can be asked.
 * @dmabuf_answer: OUT -errno that the provider gives for fd -1, EBADF where
 * DMA-BUF MRs are known down to the driver; 0: not asked
 */
void explain_ask_device(struct mrg_explain_opts *opts, int *dmabuf_answer);

struct ibv_context;

/** explain_open_device() - the RDMA device of that name; NULL with errno: ENODEV ... */
struct ibv_context *explain_open_device(const char *name);
/** explain_ask_dmabuf() - register fd -1; @answer: OUT the provider's -errno.
 *  Return: 0; -errno: there is no protection domain to ask with. */
int explain_ask_dmabuf(struct ibv_context *device, int *answer);

/* What a cause is weighed by. */
struct explain_evidence {
	struct mrg_explain_opts opts;
	struct explain_process_facts process;
	uint64_t host_page;
	int dmabuf_answer; /* see explain_ask_device() */
};

/* Writes a finding; the remedy is left out where there is nothing to mend. */
__attribute__((format(printf, 4, 5))) void explain_say(struct mrg_finding *finding,
						       enum mrg_likelihood likelihood,
						       const char *remedy, const char *format, ...);
#define explain_rule_out(finding, ...) explain_say(finding, MRG_IS_NOT, "", __VA_ARGS__)
/* Why the range is not known. */
const char *explain_no_range(const struct explain_evidence *evidence);

/* "78.6 GiB" */
struct explain_size {
	char text[32];
};
struct explain_size explain_size(uint64_t bytes);
#define SIZE(bytes) (explain_size(bytes).text)
#define NUMBER(value) (host_grouped(value).text)

/* Whether the call is given a range of the process's addresses. */
static inline bool explain_takes_range(const struct explain_evidence *evidence)
{
	return evidence->opts.call == MRG_CALL_REG_MR || evidence->opts.call == MRG_CALL_MADVISE;
}

/* One for each cause: explain_memory.c, explain_mr.c, explain_dmabuf.c. */
void explain_vma_limit(const struct explain_evidence *evidence, struct mrg_finding *finding);
void explain_memlock(const struct explain_evidence *evidence, struct mrg_finding *finding);
void explain_mr_size(const struct explain_evidence *evidence, struct mrg_finding *finding);
void explain_keys(const struct explain_evidence *evidence, struct mrg_finding *finding);
void explain_hole(const struct explain_evidence *evidence, struct mrg_finding *finding);
void explain_huge_page(const struct explain_evidence *evidence, struct mrg_finding *finding);
void explain_device_memory(const struct explain_evidence *evidence, struct mrg_finding *finding);
void explain_dmabuf_size(const struct explain_evidence *evidence, struct mrg_finding *finding);
void explain_page_offset(const struct explain_evidence *evidence, struct mrg_finding *finding);
void explain_dmabuf_support(const struct explain_evidence *evidence, struct mrg_finding *finding);
void explain_exporter(const struct explain_evidence *evidence, struct mrg_finding *finding);
void explain_cgroup(const struct explain_evidence *evidence, struct mrg_finding *finding);
void explain_file_mapping(const struct explain_evidence *evidence, struct mrg_finding *finding);

#endif
