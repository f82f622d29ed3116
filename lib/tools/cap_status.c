/* SPDX-License-Identifier: MIT */
/* What `mrguard cap status' sees, and how it says it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "tools/cap.h"
#include "tools/json.h"

#define MAX_HOLDERS 4096

const char *cap_meaning(enum mrg_cap cap)
{
	switch (cap) {
	case MRG_CAP_WAITING:
		return "mrguard_cap is loaded, and the RDMA core is not";
	case MRG_CAP_SET:
		return "nothing shows its effect without mrguard_walk (sudo modprobe mrguard_walk)";
	case MRG_CAP_EFFECTIVE:
		return "MRs registered since it was set get no page above 2 GiB";
	case MRG_CAP_NOT_EFFECTIVE:
		return "MRs still get pages above 2 GiB: see /sys/kernel/debug/kprobes/enabled";
	case MRG_CAP_LOST:
		return "the RDMA core was loaded again without it: see the kernel log";
	default:
		return "a state of a later module";
	}
}

void cap_print_counts(const struct term *term, const struct mrg_dev_info *info)
{
	fprintf(term->out,
		"         %" PRIu64 " picks, %" PRIu64 " capped, %" PRIu64 " could not be capped\n",
		info->cap_asked, info->cap_capped, info->cap_uncapped);
}

static bool is_needless(const struct module *module)
{
	if (module->state != MODULE_LOADED || !module->info.has_walk)
		return false;
	switch (module->info.walk) {
	case MRG_WALK_EXACT:
	case MRG_WALK_PER_ENTRY:
	case MRG_WALK_PER_ENTRY_NARROW:
		return true;
	default:
		return false;
	}
}

static bool is_new(const pid_t *list, ssize_t count, pid_t pid)
{
	for (ssize_t i = 0; i < count; i++)
		if (list[i] == pid)
			return false;
	return pid != getpid();
}

static void look_for_holders(struct cap_status *status)
{
	uint32_t *pids = calloc(MAX_HOLDERS, sizeof(*pids));
	ssize_t total = -ENOMEM, kept = 0;

	status->holders = calloc(MAX_HOLDERS, sizeof(*status->holders));
	if (pids && status->holders)
		total = status->module.dev ?
				mrg_dev_holders(status->module.dev, pids, MAX_HOLDERS) :
				-ENODEV;
	for (ssize_t i = 0; i < total && i < MAX_HOLDERS; i++)
		if (is_new(status->holders, kept, (pid_t)pids[i]))
			status->holders[kept++] = (pid_t)pids[i];
	status->holder_count = total < 0 ? total : kept;
	free(pids);
}

void cap_look(struct cap_status *status)
{
	*status =
		(struct cap_status){ .loaded = mrg_cap_is_loaded(), .boot = mrg_cap_is_for_boot() };
	module_open(&status->module);
	status->needless = is_needless(&status->module);
	status->dev_count = mrg_rdma_list(NULL, &status->devs);
	status->mr_count = status->loaded ? mrg_cap_before(&status->mrs) : 0;
	if (status->loaded)
		look_for_holders(status);
}

void cap_close(struct cap_status *status)
{
	module_close(&status->module);
	if (status->dev_count >= 0)
		free(status->devs);
	free(status->mrs);
	free(status->holders);
}

/* Without the module that asks, "set" is all that a loaded cap is known to be. */
static enum mrg_cap cap_of(const struct cap_status *status)
{
	enum mrg_cap cap = status->module.info.cap;

	if (!status->loaded)
		return MRG_CAP_OFF;
	return cap == MRG_CAP_OFF ? MRG_CAP_SET : cap;
}

const char *cap_state_name(const struct cap_status *status)
{
	if (!status->loaded && status->needless)
		return "not needed";
	return mrg_cap_name(cap_of(status));
}

bool cap_is_at_risk(const struct cap_status *status)
{
	if (status->needless)
		return false;
	switch (cap_of(status)) {
	case MRG_CAP_WAITING:
		return false;
	case MRG_CAP_EFFECTIVE:
		return status->mr_count || status->module.info.cap_uncapped;
	default:
		return true;
	}
}

struct cap_process cap_process(pid_t pid)
{
	struct cap_process process;
	char path[64], comm[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	file = pid ? fopen(path, "re") : NULL;
	if (file) {
		if (!fgets(comm, sizeof(comm), file))
			comm[0] = 0;
		fclose(file);
	}
	comm[strcspn(comm, "\n")] = 0;
	base_make_plain(comm);
	if (pid)
		snprintf(process.text, sizeof(process.text), "%d %s", pid, comm);
	else
		snprintf(process.text, sizeof(process.text), "a process of another PID namespace");
	return process;
}

static const char *remedy_of(const struct cap_status *status)
{
	switch (cap_of(status)) {
	case MRG_CAP_OFF:
		if (status->needless)
			return "";
		return status->module.info.has_walk ?
			       "Set it: sudo mrguard cap on." :
			       "Find out whether this kernel needs it: sudo modprobe -a mrguard mrguard_walk.";
	case MRG_CAP_SET:
		if (status->module.state == MODULE_LOADED)
			return "Load what shows it: sudo modprobe mrguard_walk.";
		return status->module.state == MODULE_ABSENT ?
			       "Load what shows it: sudo modprobe -a mrguard mrguard_walk." :
			       module_state_remedy(status->module.state);
	case MRG_CAP_NOT_EFFECTIVE:
		return "Turn kprobes on: echo 1 | sudo tee /sys/kernel/debug/kprobes/enabled.";
	case MRG_CAP_LOST:
		return "See the kernel log, and set it anew: sudo mrguard cap off && sudo mrguard cap on.";
	default:
		return "";
	}
}

static const char *meaning_of(const struct cap_status *status)
{
	enum mrg_cap cap = cap_of(status);

	if (status->needless)
		return status->loaded ?
			       "this kernel walks the pages of an MR correctly, and needs no cap" :
			       "this kernel walks the pages of an MR correctly";
	if (cap == MRG_CAP_OFF)
		return status->module.info.has_walk ?
			       "on this kernel an MR with pages of 4 GiB or more can wrap" :
			       "whether this kernel needs it is not known";
	if (cap == MRG_CAP_SET && status->module.state != MODULE_LOADED)
		return "not shown: only /dev/mrguard and mrguard_walk show its effect";
	return cap_meaning(cap);
}

static void print_state(const struct term *term, const struct cap_status *status)
{
	const struct mrg_dev_info *info = &status->module.info;

	fprintf(term->out, "cap      ");
	term_print(term, cap_is_at_risk(status) ? TERM_WARN : TERM_GOOD, "%s",
		   cap_state_name(status));
	fprintf(term->out, ": %s\n", meaning_of(status));
	if (remedy_of(status)[0])
		fprintf(term->out, "         %s\n", remedy_of(status));
	if (info->cap != MRG_CAP_OFF)
		cap_print_counts(term, info);
	if (info->walk == MRG_WALK_PER_ENTRY_NARROW)
		fprintf(term->out,
			"         The cap does not cure a narrow walk, which can hang at entries "
			"near 4 GiB in small pages too.\n");
	fprintf(term->out, "boot     %s\n",
		status->boot ? "enabled: mrguard-cap.service sets it at each boot" :
			       "not enabled: sudo mrguard cap on --boot sets it at each boot");
}

static const char *pick_text(const struct mrg_rdma_dev *dev)
{
	if (!dev->has_pci)
		return "needs no cap: without a PCI function there are no DMA addresses";
	switch (dev->pick) {
	case MRG_PICK_KERNEL:
		return "reached by the cap";
	case MRG_PICK_OWN:
		return "not reached: its driver has a pick of its own";
	default:
		return "not known: what its driver's module imports cannot be read";
	}
}

static void print_devices(const struct term *term, const struct cap_status *status)
{
	if (status->dev_count < 0)
		fprintf(term->out, "devices  cannot be listed: %s\n",
			strerror((int)-status->dev_count));
	else
		fprintf(term->out, "devices%s\n", status->dev_count ? "" : "  none");
	for (ssize_t i = 0; i < status->dev_count; i++)
		fprintf(term->out, "  %-14s  %-12s  %s\n", status->devs[i].name,
			status->devs[i].driver[0] ? status->devs[i].driver : "-",
			pick_text(&status->devs[i]));
}

static void print_mrs(const struct term *term, const struct cap_status *status)
{
	if (status->mr_count < 0) {
		fprintf(term->out, "MRs from before  cannot be listed: %s\n",
			strerror((int)-status->mr_count));
		return;
	}
	fprintf(term->out, "MRs from before%s\n",
		status->mr_count ? ": the cap does not mend them; restart these programs" :
				   "  none");
	for (ssize_t i = 0; i < status->mr_count; i++) {
		const struct mrg_cap_mr *mr = &status->mrs[i];

		fprintf(term->out, "  %-14s  %-10s  of %s%s\n", mr->device,
			mr->length ? term_size(mr->length).text : "size -",
			mr->pid ? cap_process(mr->pid).text : "a thread that has ended",
			mr->certain ? "" : ", may be from before");
	}
}

static void print_holders(const struct term *term, const struct cap_status *status)
{
	if (status->holder_count < 0) {
		fprintf(term->out, "holders  cannot be listed: %s\n",
			status->holder_count == -EPERM ? "only root may" :
							 strerror((int)-status->holder_count));
		return;
	}
	fprintf(term->out, "holders%s\n", status->holder_count ? "" : "  none");
	for (ssize_t i = 0; i < status->holder_count; i++)
		fprintf(term->out, "  %s\n", cap_process(status->holders[i]).text);
}

void cap_print(const struct term *term, const struct cap_status *status)
{
	print_state(term, status);
	print_devices(term, status);
	if (!status->loaded)
		return;
	print_mrs(term, status);
	print_holders(term, status);
}

static json_t *json_counts(const struct cap_status *status)
{
	const struct mrg_dev_info *info = &status->module.info;
	json_t *out;

	if (info->cap == MRG_CAP_OFF)
		return json_null();
	out = json_object();
	json_put(&out, "asked", json_count(info->cap_asked));
	json_put(&out, "capped", json_count(info->cap_capped));
	json_put(&out, "uncapped", json_count(info->cap_uncapped));
	return out;
}

static json_t *json_dev(const struct cap_status *status, ssize_t at)
{
	const struct mrg_rdma_dev *dev = &status->devs[at];
	json_t *out = json_object();

	json_put(&out, "name", json_text(dev->name));
	json_put(&out, "driver", dev->driver[0] ? json_text(dev->driver) : json_null());
	json_put(&out, "pick", json_string(mrg_pick_name(dev->pick)));
	return out;
}

static json_t *json_holder(const struct cap_status *status, ssize_t at)
{
	return json_count((uint64_t)status->holders[at]);
}

static json_t *json_mr(const struct cap_status *status, ssize_t at)
{
	const struct mrg_cap_mr *mr = &status->mrs[at];
	json_t *out = json_object();

	json_put(&out, "device", json_text(mr->device));
	json_put(&out, "number", json_count(mr->number));
	json_put(&out, "pid", mr->pid ? json_count((uint64_t)mr->pid) : json_null());
	json_put(&out, "comm", mr->pid ? json_text(mr->comm) : json_null());
	json_put(&out, "length", mr->length ? json_count(mr->length) : json_null());
	json_put(&out, "certain", json_boolean(mr->certain));
	return out;
}

/* A list, or null where it could not be read. */
static json_t *json_list(ssize_t count, json_t *(*make)(const struct cap_status *, ssize_t),
			 const struct cap_status *status)
{
	json_t *list;

	if (count < 0)
		return json_null();
	list = json_array();
	for (ssize_t i = 0; i < count; i++)
		json_array_append_new(list, make(status, i));
	return list;
}

int cap_print_json(const struct cap_status *status)
{
	json_t *out = json_object();

	json_put(&out, "schema", json_string("mrguard.cap/1"));
	json_put(&out, "state", json_string(cap_state_name(status)));
	json_put(&out, "walk", json_string(mrg_walk_name(status->module.info.walk)));
	json_put(&out, "counts", json_counts(status));
	json_put(&out, "boot", json_boolean(status->boot));
	json_put(&out, "at_risk", json_boolean(cap_is_at_risk(status)));
	json_put(&out, "devices", json_list(status->dev_count, json_dev, status));
	json_put(&out, "before", json_list(status->mr_count, json_mr, status));
	json_put(&out, "holders", json_list(status->holder_count, json_holder, status));
	return json_print(out);
}
