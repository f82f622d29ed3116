/* SPDX-License-Identifier: MIT */
/*
 * What an operator knows of mrguard_cap.ko beyond its state (mrguard/host.h):
 * the MRs that are older than it, and the processes that keep it loaded.  See mrguard-cap(8).
 */
#ifndef MRGUARD_CAP_H
#define MRGUARD_CAP_H

#include <stdbool.h>
#include <sys/types.h>
#include <mrguard/common.h>
#include <mrguard/host.h>

#ifdef __cplusplus
extern "C" {
#endif

/** mrg_cap_is_loaded() - whether sysfs shows mrguard_cap.ko; any user, also without mrguard.ko */
MRG_API bool mrg_cap_is_loaded(void);

/** mrg_cap_is_for_boot() - whether mrguard-cap.service is enabled, and not masked */
MRG_API bool mrg_cap_is_for_boot(void);

/**
 * mrg_dev_holders() - the processes that keep mrguard_cap.ko loaded
 * @pids: room for @cap of them; 0 stands for a process that this PID namespace
 *	does not show.  A process is there once for each file that it holds.
 *
 * Return: the number of files that hold the cap, which may exceed @cap; the
 * errors of MRG_IOC_HOLDERS (mrguard(4)); -EOPNOTSUPP (a module of 0.1.0).
 */
MRG_API ssize_t mrg_dev_holders(struct mrg_dev *dev, uint32_t *pids, size_t cap);

/** One MR of more than 4 GiB that the cap did not see, or may not have seen. */
struct mrg_cap_mr {
	char device[64];
	uint32_t number; /* the device's own, as `rdma resource show mr' prints it */
	pid_t pid; /* 0: the thread that registered it has ended */
	uint64_t length; /* bytes; 0: the driver does not tell */
	char comm[16]; /* "" without @pid */
	bool certain; /* it was there when the cap was set; else it may be younger */
	uint8_t reserved0[7]; /* 0 */
	uint64_t started; /* when @pid started, in clock ticks since boot; 0: not known */
	uint64_t reserved[2]; /* 0 */
};

/**
 * mrg_cap_record() - list the MRs of more than 4 GiB in /run/mrguard-cap/before
 *
 * To be called by root as soon as mrguard_cap.ko was loaded.
 *
 * Return: their number; -errno of the file or of RDMA netlink; -ENOENT (the
 * cap is not loaded).
 */
MRG_API ssize_t mrg_cap_record(void);

/**
 * mrg_cap_before() - the MRs of that list that are still there
 * @mrs: OUT, to be freed with free(3)
 *
 * Without a list of this load of the cap, the MRs of processes that are older
 * than the cap; they are not certain.
 *
 * Return: their number; -ENOENT (the cap is not loaded); -errno of RDMA netlink.
 */
MRG_API ssize_t mrg_cap_before(struct mrg_cap_mr **mrs);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_CAP_H */
