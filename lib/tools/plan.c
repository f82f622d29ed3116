/* SPDX-License-Identifier: MIT */
/* mrguard plan: judge one MR over a buffer, and name MRs that are safe. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/args.h"
#include "tools/buffer_args.h"
#include "tools/commands.h"
#include "tools/fail.h"
#include "tools/live.h"
#include "tools/parse.h"
#include "tools/plan_report.h"

struct plan_args {
	struct buffer_args buffer;
	struct mrg_plan_opts opts;
	const char *sg;
	bool has_walker;
	bool has_max_mr_size;
	bool all;
	struct output_args output;
};

/* enum mrg_walk */
static const char *const walks[] = { "unknown",	   "exact",
				     "truncating", "truncating-unbounded",
				     "per-entry",  "per-entry-narrow",
				     NULL };

static void parse_max_page_shift(const struct argp_state *state, const char *option, char *arg,
				 void *filled)
{
	struct plan_args *args = filled;
	uint64_t shift = 0;

	if (strcmp(arg, "unknown") && (parse_size(arg, &shift) || shift < 12 || shift > 63))
		args_expect(state, option, arg, "from 12 to 63 or unknown");
	args->opts.max_page_shift = (uint32_t)shift;
}

#define AT(field) ARGS_AT(struct plan_args, field)
static const struct args_option options[] = {
	{ .help = "A buffer from a list:" },
	{ "sg", "FILE",
	  "The buffer's scatter list, one \"DMA_ADDRESS LENGTH\" a line; - is standard input",
	  ARGS_TEXT, AT(sg) },
	{ .help = "A buffer made here, and the range:" },
	{ .kind = ARGS_GROUP, .group = buffer_options, AT(buffer) },
	{ .help = "What is known:" },
	{ "max-page-shift", "N|unknown",
	  "Largest page that the device takes, as a power of two: 12 to 63 "
	  "(unknown: right for each of 31 to 63)",
	  ARGS_OTHER, .parse = parse_max_page_shift },
	{ "walker", "WALK",
	  "How the kernel makes blocks: exact, truncating or unknown (default: "
	  "as the module finds, else unknown)",
	  ARGS_WORD, AT(opts.walk), .given = offsetof(struct plan_args, has_walker),
	  .words = walks },
	{ "max-mr-size", "N", "Largest MR of the device (default: as an RDMA importer reports)",
	  ARGS_NUMBER, AT(opts.max_mr_size), .given = offsetof(struct plan_args, has_max_mr_size) },
	/* As for mrg_plan_make(): no host has pages above 1 GiB. */
	{ "page-size", "N", "Host page size (this host's)", ARGS_POWER, AT(opts.page_size),
	  .min = 4096, .max = 1 << 30 },
	{ "translated", NULL, "The MR may get other addresses: it sits behind a translating IOMMU",
	  ARGS_BIT, AT(opts.flags), .min = MRG_PLAN_TRANSLATED },
	{ "moves", NULL, "The MR may get other addresses: the exporter can move the memory",
	  ARGS_BIT, AT(opts.flags), .min = MRG_PLAN_MOVES },
	{ "cap", NULL,
	  "The kernel is capped at pages of 2 GiB, by mrguard_cap (default with an "
	  "importer and without --walker: if this one is, and its driver heeds it)",
	  ARGS_BIT, AT(opts.flags), .min = MRG_PLAN_CAPPED },
	{ .help = "What is wanted:" },
	{ "strategy", "WHICH", "auto (default), split into several MRs, or rebase to another iova",
	  ARGS_WORD, AT(opts.strategy), .words = args_strategies },
	{ "iova-free", NULL, "The iova need not be the virtual address, so auto may rebase",
	  ARGS_BIT, AT(opts.flags), .min = MRG_PLAN_IOVA_FREE },
	{ "unit", "N", "Block of the range that cuts should not fall into", ARGS_NUMBER,
	  AT(opts.unit) },
	{ "cut-align", "N", "Cuts fall on multiples of this (huge-page size)", ARGS_POWER,
	  AT(opts.cut_align), .min = 4096 },
	{ .kind = ARGS_GROUP, .group = output_options, AT(output) },
	{ "all", NULL, "List each MR, however many there are", ARGS_FLAG, AT(all) },
	{ 0 },
};

static void check_args(const struct argp_state *state, const void *filled)
{
	const struct plan_args *args = filled;
	const struct buffer_args *buffer = &args->buffer;

	if (!args->sg == !buffer->dmabuf_from)
		argp_error(state, "Either --sg or --dmabuf-from is needed.");
	if (args->sg && !buffer->has_iova)
		argp_error(state, "--sg needs --iova: the same addresses are safe "
				  "at one iova and wrap at another.");
	if (args->sg && buffer->importer)
		argp_error(state, "--importer goes with --dmabuf-from: the addresses of a "
				  "list are already those of one importer.");
	if (buffer->dmabuf_from && !buffer->importer)
		argp_error(state, "--dmabuf-from needs --importer: addresses "
				  "differ from device to device.");
}

static const struct args_command command = {
	.options = options,
	.check = check_args,
	.usage = "--sg FILE --iova ADDR\n"
		 "--dmabuf-from KIND:SPEC --importer DEVICE",
	.doc = "Tell what one memory region (MR) over a buffer would do, and name "
	       "MRs that cannot wrap."
	       "\v"
	       "Exit status: 0 one MR is safe; 1 it is not; 2 wrong usage; 3 "
	       "unknown.  See mrguard-plan(1).",
};

/* The scatter list, however it was come by. */
struct source {
	struct mrg_sg *sg; /* NULL where the addresses are not known */
	size_t count;
	uint64_t entries; /* as mapped; contiguous ones may be joined in sg */
	bool owned;
	struct live live;
	bool is_live;
	char name[256];
};

static int read_file(const struct plan_args *args, struct source *source, struct parse_note *note,
		     struct mrg_error *error)
{
	bool is_stdin = !strcmp(args->sg, "-");
	const char *name = is_stdin ? "standard input" : args->sg;
	FILE *file = is_stdin ? stdin : fopen(args->sg, "re");
	int ret;

	if (!file)
		return base_error_set(error, -errno, "open list",
				      "Check the name and its permissions.",
				      "The list %.150s cannot be opened: %s.", name,
				      strerror(errno));
	snprintf(source->name, sizeof(source->name), "%.150s", name);
	ret = parse_list_note(file, name, &source->sg, &source->count, note, error);
	if (!is_stdin)
		fclose(file);
	if (ret)
		return ret;
	source->entries = source->count;
	source->owned = true;
	return 0;
}

/*
 * Equivalent addresses agree with the true ones only as far as they are
 * compared with the iova that they were made for.
 */
static int check_note(const struct parse_note *note, const struct mrg_plan_opts *opts,
		      struct mrg_error *error)
{
	unsigned long long fits = note->base_iova + opts->offset;

	if (!note->equivalent || fits == opts->iova)
		return 0;
	return base_error_set(error, -EINVAL, "check list",
			      "Make the list anew for this iova, or as root.",
			      "The list holds equivalent addresses: at offset 0x%llx "
			      "they are good for --iova 0x%llx only, not 0x%llx.",
			      (unsigned long long)opts->offset, fits,
			      (unsigned long long)opts->iova);
}

static int load_file(struct plan_args *args, struct source *source, struct mrg_error *error)
{
	struct parse_note note;
	int ret = read_file(args, source, &note, error);

	if (ret)
		return ret;
	args->opts.iova = args->buffer.iova;
	args->opts.offset = args->buffer.offset;
	args->opts.length = args->buffer.length;
	return check_note(&note, &args->opts, error);
}

/* A plan for unknown addresses is right, but costs MRs; so tell how to know. */
static void tell_blind(const struct module *module)
{
	fail_say(
		module_state_remedy(module->state),
		"Without the module (%s) the DMA addresses are unknown, so the plan may use more MRs than are needed.",
		module_state_text(module->state));
}

static int load_live(struct plan_args *args, struct source *source, struct mrg_error *error)
{
	struct live *live = &source->live;
	bool entries = args->opts.walk >= MRG_WALK_PER_ENTRY;
	int ret = live_open(&args->buffer, entries, live, error);

	if (ret)
		return ret;
	source->is_live = true;
	snprintf(source->name, sizeof(source->name), "%.90s as %s maps it",
		 args->buffer.dmabuf_from,
		 live->rdma[0] ? live->rdma : pci_text(&live->importer).text);
	args->opts.iova = live->iova;
	args->opts.offset = live->offset;
	args->opts.length = live->length;
	if (!args->has_max_mr_size)
		args->opts.max_mr_size = live->max_mr_size;
	if (!live->has_layout) {
		tell_blind(&live->module);
		return 0;
	}
	source->sg = live->layout.sg;
	source->count = live->layout.count;
	source->entries = live->layout.entries;
	args->opts.offset = live->offset - live->layout.start;
	if (live->layout.iommu == MRG_IOMMU_MODE_TRANSLATED)
		args->opts.flags |= MRG_PLAN_TRANSLATED;
	if (live->layout.moves)
		args->opts.flags |= MRG_PLAN_MOVES;
	return 0;
}

static void drop_source(struct source *source)
{
	if (source->owned)
		free(source->sg);
	if (source->is_live)
		live_close(&source->live);
}

static const char *settle_walk(struct plan_args *args, struct source *source)
{
	struct module here, *module = source->is_live ? &source->live.module : &here;
	const char *from = "not seen";

	if (args->has_walker)
		return "as given";
	if (!source->is_live)
		module_open(&here);
	else if (module->info.cap == MRG_CAP_EFFECTIVE && !module->info.cap_uncapped &&
		 source->live.pick == MRG_PICK_KERNEL)
		args->opts.flags |= MRG_PLAN_CAPPED;
	args->opts.walk = module_ask_walk(module);
	if (args->opts.walk != MRG_WALK_UNKNOWN)
		from = module->asked.walk == MRG_WALK_UNKNOWN ? "of this kernel" :
								"of ib_core's file";
	if (!source->is_live)
		module_close(&here);
	return from;
}

static int make_plan(const struct source *source, const struct mrg_plan_opts *opts,
		     struct mrg_plan **plan, struct mrg_error *error)
{
	int ret = mrg_plan_make(source->sg, source->count, opts, plan);

	if (ret == -EINVAL && opts->walk >= MRG_WALK_PER_ENTRY)
		return base_error_set(error, ret, "plan",
				      "Give the entries as they were mapped, not joined.",
				      "The walk %s takes single entries, each below 4 GiB.",
				      mrg_walk_name(opts->walk));
	if (ret)
		return base_error_set(error, ret, "plan", "",
				      "No plan can be made from these options: %s.",
				      strerror(-ret));
	return 0;
}

static bool agree(const struct mrg_outcome *model, const struct mrg_kernel_blocks *said)
{
	uint64_t page = model->page_shift ? 1ULL << model->page_shift : 0;

	if (page != said->page_size)
		return false;
	if (!page)
		return true;
	return model->blocks == said->total_blocks && model->wrong_blocks == said->wrong &&
	       model->first_bad_offset == said->first_wrong &&
	       (model->verdict == MRG_HANGS) == said->endless;
}

/*
 * The kernel is asked for the case that the plan calls the single MR: with the
 * page picked there as the largest one, the pick stays the same.
 */
static bool ask_kernel(const struct source *source, const struct mrg_plan_opts *opts,
		       const struct mrg_outcome *single, struct kernel_answer *answer)
{
	const struct live *live = &source->live;
	uint32_t limit = single->page_shift ? single->page_shift : 63;
	uint64_t bitmap = (UINT64_MAX >> (63 - limit)) & ~0xfffULL;
	struct mrg_plan_opts own = *opts;
	struct mrg_dev_info now;
	struct mrg_plan *plan;

	if (!source->is_live || !live->has_layout || !live->module.info.has_walk)
		return false;
	/* It would see other addresses than we did. */
	if (opts->flags & (MRG_PLAN_TRANSLATED | MRG_PLAN_MOVES))
		return false;
	if (mrg_dev_dmabuf_blocks(live->module.dev, live->buffer.fd, &live->importer, live->iova,
				  live->offset, live->length, bitmap, 0, NULL, 0,
				  &answer->said) < 0)
		return false;
	if (mrg_dev_info(live->module.dev, &now))
		return false;
	answer->capped = now.cap == MRG_CAP_EFFECTIVE;
	/* The walk module calls the kernel's pick, whatever the device's driver calls. */
	own.flags &= ~MRG_PLAN_CAPPED;
	own.flags |= answer->capped ? MRG_PLAN_CAPPED : 0;
	own.walk = live->module.info.walk;
	own.max_page_shift = limit;
	own.max_mr_size = 0;
	if (mrg_plan_make(source->sg, source->count, &own, &plan))
		return false;
	answer->walk = own.walk;
	answer->model = *mrg_plan_single(plan);
	answer->agrees = agree(&answer->model, &answer->said);
	mrg_plan_free(plan);
	return true;
}

static uint64_t range_length(const struct source *source, const struct mrg_plan_opts *opts)
{
	uint64_t bytes = 0;

	if (opts->length)
		return opts->length;
	for (size_t i = 0; i < source->count; i++)
		bytes += source->sg[i].len;
	return opts->offset < bytes ? bytes - opts->offset : 0;
}

static int exit_status(const struct mrg_plan *plan)
{
	switch (mrg_plan_single(plan)->verdict) {
	case MRG_SAFE:
		return EXIT_OK;
	case MRG_VERDICT_UNKNOWN:
		return EXIT_FAILED;
	default:
		return EXIT_FINDING;
	}
}

static int show_plan(const struct plan_args *args, const struct source *source,
		     const char *walk_source, const struct mrg_plan *plan)
{
	struct kernel_answer answer = { 0 };
	struct plan_report report = {
		.source = source->name,
		.walk_source = walk_source,
		.entries = source->entries,
		.length = range_length(source, &args->opts),
		.opts = &args->opts,
		.plan = plan,
		.all = args->all,
	};
	struct term term;

	if (ask_kernel(source, &args->opts, mrg_plan_single(plan), &answer))
		report.kernel = &answer;
	if (args->output.json)
		return plan_print_json(&report) ? EXIT_FAILED : exit_status(plan);
	term_init(&term, stdout, args->output.colour);
	plan_print_text(&term, &report);
	return exit_status(plan);
}

int cmd_plan(int argc, char **argv)
{
	struct plan_args args = { .opts.size = sizeof(args.opts) };
	struct source source = { 0 };
	struct mrg_error error = { 0 };
	struct mrg_plan *plan = NULL;
	const char *walk_source;
	int ret, status;

	if (args_parse(&command, argc, argv, &args))
		return EXIT_FAILED;
	ret = args.sg ? load_file(&args, &source, &error) : load_live(&args, &source, &error);
	if (ret) {
		fail_print(&error);
		drop_source(&source);
		return EXIT_FAILED;
	}
	walk_source = settle_walk(&args, &source);
	ret = make_plan(&source, &args.opts, &plan, &error);
	if (ret)
		fail_print(&error);
	status = ret ? EXIT_FAILED : show_plan(&args, &source, walk_source, plan);
	mrg_plan_free(plan);
	drop_source(&source);
	return status;
}
