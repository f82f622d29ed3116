/* SPDX-License-Identifier: MIT */
/*
 * The host check: what this host is, and whether it corrupts data or will run
 * dry.  Every check runs, always; what cannot be seen is "unknown", never a
 * guess.  Any thread; a report is used by one thread at a time.
 */
#ifndef MRGUARD_CHECK_H
#define MRGUARD_CHECK_H

#include <sys/types.h>
#include <mrguard/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * enum mrg_check_verdict - what a check found
 * @MRG_CHECK_OK: looked at, and as it should be
 * @MRG_CHECK_WARN: works, with a cost or a condition
 * @MRG_CHECK_FAIL: corrupts data or fails
 * @MRG_CHECK_UNKNOWN: could not be seen; the evidence says why
 * @MRG_CHECK_SKIP: does not apply to this host
 * @MRG_CHECK_LIKELY: as it should be by what a version or a name implies, which
 *	nothing on this host confirmed
 */
enum mrg_check_verdict {
	MRG_CHECK_OK,
	MRG_CHECK_WARN,
	MRG_CHECK_FAIL,
	MRG_CHECK_UNKNOWN,
	MRG_CHECK_SKIP,
	MRG_CHECK_LIKELY,
};

/**
 * enum mrg_check_basis - what a verdict rests on
 * @MRG_BASIS_NONE: nothing: the verdict is MRG_CHECK_UNKNOWN
 * @MRG_BASIS_INFERRED: a version or a name; never enough for MRG_CHECK_OK
 * @MRG_BASIS_READ: a file that states it, on this host or in a record
 * @MRG_BASIS_ASKED: the running kernel's own functions, or a device's answer
 */
enum mrg_check_basis {
	MRG_BASIS_NONE,
	MRG_BASIS_INFERRED,
	MRG_BASIS_READ,
	MRG_BASIS_ASKED,
};

/**
 * struct mrg_check_result - one line of the report
 * @id: the check, a stable name ("walk", "device-pages")
 * @subject: what it is about: an RDMA device, a port, a pair; "" = the host
 * @verdict: see enum mrg_check_verdict
 * @basis: see enum mrg_check_basis
 * @evidence: the value seen, and where
 * @meaning: one sentence
 * @remedy: one sentence with the exact command; "" where nothing is to be done
 */
struct mrg_check_result {
	const char *id;
	char subject[80];
	enum mrg_check_verdict verdict;
	enum mrg_check_basis basis;
	char evidence[320];
	char meaning[256];
	char remedy[256];
};

/**
 * struct mrg_check_opts - what to look at
 * @size: sizeof(struct mrg_check_opts)
 * @root: a recorded host; NULL = this one
 * @dump: an empty directory that gets a copy of all that is read; NULL = none
 * @device: only this RDMA device; NULL = all
 * @unit: systemd unit whose limits are judged; NULL = none
 * @pid: process whose limits are judged; 0 = none
 */
struct mrg_check_opts {
	size_t size;
	const char *root;
	const char *dump;
	const char *device;
	const char *unit;
	pid_t pid;
};

struct mrg_check_report;

/**
 * mrg_check_run() - run all checks
 * @opts: NULL = defaults
 * @report: OUT, to be freed with mrg_check_free()
 *
 * Return: 0; -EINVAL (unknown non-zero tail of opts); -ENOENT, -ENOTDIR,
 * -EACCES (root or dump); -ENOTEMPTY (dump); -ENODEV (no such device); -ENOMEM
 * (for the report itself: a check that lacks the memory to look says "unknown").
 */
MRG_API int mrg_check_run(const struct mrg_check_opts *opts, struct mrg_check_report **report);
MRG_API void mrg_check_free(struct mrg_check_report *report);
/** mrg_check_results() - in the order of the checks; they live as long as the report */
MRG_API const struct mrg_check_result *mrg_check_results(const struct mrg_check_report *report,
							 size_t *count);
/** mrg_check_worst() - FAIL before WARN before UNKNOWN before LIKELY before OK */
MRG_API enum mrg_check_verdict mrg_check_worst(const struct mrg_check_report *report);
/** mrg_check_verdict_name() - "ok", "warn", "fail", "unknown", "skip", "likely" */
MRG_API const char *mrg_check_verdict_name(enum mrg_check_verdict verdict);
/** mrg_check_basis_name() - "none", "inferred", "read", "asked" */
MRG_API const char *mrg_check_basis_name(enum mrg_check_basis basis);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_CHECK_H */
