/* SPDX-License-Identifier: MIT */
/* mrguard info: what this host is, as far as registration is concerned. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "tools/args.h"
#include "tools/cap.h"
#include "tools/commands.h"
#include "tools/fail.h"
#include "tools/json.h"
#include "tools/module.h"

struct info {
	struct utsname host;
	struct module module;
	struct mrg_rdma_dev *devs;
	ssize_t count;
};

struct info_args {
	struct output_args output;
	const char *root;
	const char *walk_of;
};

#define AT(field) ARGS_AT(struct info_args, field)
static const struct args_option options[] = {
	{ "walk-of", "FILE",
	  "Show the block walk of FILE alone, an ib_core.ko of this architecture", ARGS_TEXT,
	  AT(walk_of) },
	{ .kind = ARGS_GROUP, .group = root_options, AT(root) },
	{ .kind = ARGS_GROUP, .group = output_options, AT(output) },
	{ 0 },
};

static const struct args_command command = {
	.options = options,
	.doc = "Show the module, this kernel's block walk and the RDMA devices."
	       "\v"
	       "Works without the module and without privileges, and says what "
	       "it could not see.",
};

static enum mrg_walk walk_of(const struct module *module)
{
	return module->info.walk != MRG_WALK_UNKNOWN ? module->info.walk : module->asked.walk;
}

/* Only this pair of answers decides whether a wrap can happen here. */
static const char *walk_meaning(const struct module *module)
{
	switch (walk_of(module)) {
	case MRG_WALK_EXACT:
		return "pages of 4 GiB and more are safe on this kernel";
	case MRG_WALK_TRUNCATING:
	case MRG_WALK_TRUNCATING_UNBOUNDED:
		return "on this kernel an MR with pages of 4 GiB or more can wrap";
	case MRG_WALK_PER_ENTRY:
	case MRG_WALK_PER_ENTRY_NARROW:
		return "pages of 4 GiB and more cannot come about on this kernel";
	default:
		return "plans assume that it truncates";
	}
}

static enum term_style walk_style(const struct module *module)
{
	switch (walk_of(module)) {
	case MRG_WALK_TRUNCATING:
	case MRG_WALK_TRUNCATING_UNBOUNDED:
		return TERM_BAD;
	case MRG_WALK_UNKNOWN:
		return TERM_WARN;
	default:
		return TERM_GOOD;
	}
}

/* The cap is optional, so nothing is printed if it is not loaded. */
static void print_cap(const struct term *term, const struct mrg_dev_info *info)
{
	if (info->cap == MRG_CAP_OFF)
		return;
	fprintf(term->out, "cap      ");
	term_print(term, info->cap == MRG_CAP_EFFECTIVE ? TERM_GOOD : TERM_WARN, "%s",
		   mrg_cap_name(info->cap));
	fprintf(term->out, ": %s\n", cap_meaning(info->cap));
	cap_print_counts(term, info);
}

static void print_walk(const struct term *term, const struct module *module)
{
	const struct mrg_walk_answer *asked = &module->asked;

	fprintf(term->out, "walk     ");
	term_print(term, walk_style(module), "%s", mrg_walk_name(walk_of(module)));
	fprintf(term->out, ": %s\n", walk_meaning(module));
	if (asked->walk != MRG_WALK_UNKNOWN)
		fprintf(term->out, "         %s by running the code in %s\n",
			asked->recorded ? "recorded: found" : "asked", asked->file);
	else if (asked->why[0])
		fprintf(term->out, "         %s\n", asked->why);
	if (asked->pick_shift)
		fprintf(term->out, "         8 GiB without a break would get pages of 2^%u\n",
			asked->pick_shift);
}

static void print_module(const struct term *term, const struct module *module)
{
	fprintf(term->out, "module   ");
	if (module->state == MODULE_LOADED) {
		term_print(term, TERM_GOOD, "loaded");
		fprintf(term->out, ", version %s, ABI %u\n", module->info.version,
			module->info.abi);
	} else {
		term_print(term, TERM_WARN, "%s", module_state_text(module->state));
		if (module->state == MODULE_BROKEN)
			fprintf(term->out, " (%s)", strerror(-module->code));
		fprintf(term->out, "\n         %s\n", module_state_remedy(module->state));
	}

	print_walk(term, module);
	print_cap(term, &module->info);
}

static void print_device(FILE *out, const struct mrg_rdma_dev *dev, bool cap_is_loaded)
{
	static const char *const caps[] = {
		[MRG_PICK_UNKNOWN] = "unknown whether the cap holds",
		[MRG_PICK_KERNEL] = "the cap holds",
		[MRG_PICK_OWN] = "the cap has no effect: the driver picks pages itself",
	};

	fprintf(out, "  %-14s  %-12s  driver %-12s  netdev %s\n", dev->name,
		dev->has_pci ? pci_text(&dev->pci).text : "no PCI",
		dev->driver[0] ? dev->driver : "-", dev->netdev[0] ? dev->netdev : "-");
	if (cap_is_loaded)
		fprintf(out, "  %-14s  %s\n", "", caps[dev->pick]);
}

static void print_info(const struct term *term, const struct info *info)
{
	fprintf(term->out, "mrguard  %s\nkernel   %s %s\n", mrg_version(), info->host.release,
		info->host.machine);
	print_module(term, &info->module);
	if (info->count < 0)
		fprintf(term->out, "RDMA devices: cannot be listed: %s\n",
			strerror((int)-info->count));
	else if (!info->count)
		fprintf(term->out, "RDMA devices: none\n");
	else
		fprintf(term->out, "RDMA devices:\n");
	for (ssize_t i = 0; i < info->count; i++)
		print_device(term->out, &info->devs[i], info->module.info.cap != MRG_CAP_OFF);
}

static json_t *text_or_null(const char *text)
{
	return text[0] ? json_text(text) : json_null();
}

static json_t *json_cap(const struct mrg_dev_info *info)
{
	json_t *out = json_object();

	json_put(&out, "state", json_string(mrg_cap_name(info->cap)));
	json_put(&out, "asked", json_count(info->cap_asked));
	json_put(&out, "capped", json_count(info->cap_capped));
	json_put(&out, "uncapped", json_count(info->cap_uncapped));
	return out;
}

static json_t *json_module(const struct module *module)
{
	const struct mrg_dev_info *info = &module->info;
	bool loaded = module->state == MODULE_LOADED;
	json_t *out = json_object();

	json_put(&out, "state", json_string(module_state_name(module->state)));
	json_put(&out, "abi", loaded ? json_count(info->abi) : json_null());
	json_put(&out, "version", text_or_null(info->version));
	json_put(&out, "layout", json_boolean(info->has_layout));
	json_put(&out, "vma", json_boolean(info->has_vma));
	json_put(&out, "walk", json_boolean(info->has_walk));
	json_put(&out, "cap", loaded ? json_cap(info) : json_null());
	return out;
}

static json_t *json_device(const struct mrg_rdma_dev *dev)
{
	json_t *out = json_object();

	json_put(&out, "name", json_text(dev->name));
	json_put(&out, "driver", text_or_null(dev->driver));
	json_put(&out, "pci", dev->has_pci ? json_text(pci_text(&dev->pci).text) : json_null());
	json_put(&out, "netdev", text_or_null(dev->netdev));
	json_put(&out, "pick", json_string(mrg_pick_name(dev->pick)));
	return out;
}

static json_t *json_devices(const struct info *info)
{
	json_t *list;

	if (info->count < 0)
		return json_null();
	list = json_array();
	for (ssize_t i = 0; i < info->count; i++)
		json_array_append_new(list, json_device(&info->devs[i]));
	return list;
}

/* null where the module told, so that nobody had to ask. */
static json_t *json_asked(const struct mrg_walk_answer *asked)
{
	json_t *out = json_object();

	if (asked->walk == MRG_WALK_UNKNOWN && !asked->why[0]) {
		json_decref(out);
		return json_null();
	}
	json_put(&out, "walk", json_string(mrg_walk_name(asked->walk)));
	json_put(&out, "pick_shift",
		 asked->pick_shift ? json_count(asked->pick_shift) : json_null());
	json_put(&out, "file", text_or_null(asked->file));
	json_put(&out, "build_id", text_or_null(asked->build_id));
	json_put(&out, "recorded", json_boolean(asked->recorded));
	json_put(&out, "why", text_or_null(asked->why));
	return out;
}

static int print_json(const struct info *info)
{
	json_t *out = json_object();

	json_put(&out, "schema", json_string("mrguard.info/1"));
	json_put(&out, "version", json_string(mrg_version()));
	json_put(&out, "kernel", json_text(info->host.release));
	json_put(&out, "machine", json_text(info->host.machine));
	json_put(&out, "module", json_module(&info->module));
	json_put(&out, "walk", json_string(mrg_walk_name(walk_of(&info->module))));
	json_put(&out, "walk_file", json_asked(&info->module.asked));
	json_put(&out, "rdma", json_devices(info));
	return json_print(out);
}

static int show_walk_of(const struct info_args *args)
{
	struct module module = { 0 };
	struct term term;
	int ret = mrg_walk_ask_file(args->walk_of, &module.asked);

	if (ret) {
		fail_say("Check the name and its permissions.", "The file %s cannot be opened: %s.",
			 args->walk_of, strerror(-ret));
		return EXIT_FAILED;
	}
	if (args->output.json)
		return json_print(json_asked(&module.asked)) ? EXIT_FAILED : EXIT_OK;
	term_init(&term, stdout, args->output.colour);
	print_walk(&term, &module);
	return EXIT_OK;
}

int cmd_info(int argc, char **argv)
{
	struct info_args args = { 0 };
	struct info info = { 0 };
	char sysfs[PATH_MAX];
	struct term term;
	int ret = 0;

	if (args_parse(&command, argc, argv, &args))
		return EXIT_FAILED;
	if (args.walk_of)
		return show_walk_of(&args);
	uname(&info.host);
	module_open(&info.module);
	module_ask_walk(&info.module);
	info.count = mrg_rdma_list(args_path(sysfs, args.root, "/sys"), &info.devs);

	if (args.output.json) {
		ret = print_json(&info);
	} else {
		term_init(&term, stdout, args.output.colour);
		print_info(&term, &info);
	}
	if (info.count >= 0)
		free(info.devs);
	module_close(&info.module);
	return ret ? EXIT_FAILED : EXIT_OK;
}
