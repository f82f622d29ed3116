/* SPDX-License-Identifier: MIT */
/* mrguard_cap.ko as its operator sees it, and sets it. */
#ifndef TOOLS_CAP_H
#define TOOLS_CAP_H

#include <mrguard/cap.h>

#include "tools/args.h"
#include "tools/module.h"

#define CAP_MODULE "mrguard_cap"

struct cap_status {
	struct module module;
	bool loaded;
	bool needless; /* this kernel's walk was asked, and is right */
	bool boot;
	struct mrg_rdma_dev *devs;
	ssize_t dev_count; /* or -errno, as the other two */
	struct mrg_cap_mr *mrs;
	ssize_t mr_count;
	pid_t *holders; /* without this process, each once; 0: of another PID namespace */
	ssize_t holder_count;
};

/** cap_look() - ask for all of it; while @status is open, the module is held */
void cap_look(struct cap_status *status);
void cap_close(struct cap_status *status);

/** cap_state_name() - "off", "not needed", "waiting", "set", "capped", ... */
const char *cap_state_name(const struct cap_status *status);
/** cap_is_at_risk() - MRs that wrap are there, or cannot be excluded */
bool cap_is_at_risk(const struct cap_status *status);
void cap_print(const struct term *term, const struct cap_status *status);
int cap_print_json(const struct cap_status *status);

/** cap_meaning() - what a state means, a clause */
const char *cap_meaning(enum mrg_cap cap);
void cap_print_counts(const struct term *term, const struct mrg_dev_info *info);

struct cap_process {
	char text[48];
};
/** cap_process() - "1234 python3" */
struct cap_process cap_process(pid_t pid);

/*
 * Each of these tells of its failure on standard error.  Return: an exit status.
 */

/** cap_on() - load the module, list the MRs from before, and see the effect */
int cap_on(const struct term *term);
/** cap_off() - unload it; @seconds: how long to wait for its holders, INFINITY for ever */
int cap_off(const struct term *term, double seconds);
/** cap_for_boot() - enable or disable the unit */
int cap_for_boot(bool enable);

#endif
