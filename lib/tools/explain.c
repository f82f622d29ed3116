/* SPDX-License-Identifier: MIT */
/* mrguard explain: why a call failed, by each cause's own evidence. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mrguard/explain.h>

#include "base/error.h"
#include "tools/args.h"
#include "tools/commands.h"
#include "tools/fail.h"
#include "tools/json.h"
#include "tools/module.h"

#define ERRNO_MAX 133
#define ENOTSUPP 524 /* the kernel's own: C libraries have no name for it */

struct explain_args {
	const char *root;
	struct mrg_explain_opts opts;
	struct output_args output;
	bool all;
};

static int parse_errno(const char *word)
{
	char *end;
	long number = strtol(word, &end, 10);

	if (end != word && !*end)
		number = number < 0 && number >= -ENOTSUPP ? -number : number;
	if (end != word && !*end)
		return (number > 0 && number <= ERRNO_MAX) || number == ENOTSUPP ? (int)number : 0;
	if (!strcmp(word, "ENOTSUPP"))
		return ENOTSUPP;
	for (int i = 1; i <= ERRNO_MAX; i++)
		if (strerrorname_np(i) && !strcmp(word, strerrorname_np(i)))
			return i;
	return 0;
}

static void parse_error(const struct argp_state *state, const char *option, char *arg, void *filled)
{
	struct explain_args *args = filled;

	args->opts.error = parse_errno(arg);
	if (!args->opts.error)
		args_expect(state, option, arg, "an errno");
}

static const char *const calls[] = {
	[MRG_CALL_REG_MR] = "ibv_reg_mr",
	[MRG_CALL_REG_DMABUF_MR] = "ibv_reg_dmabuf_mr",
	[MRG_CALL_CREATE_QP] = "ibv_create_qp",
	[MRG_CALL_CREATE_CQ] = "ibv_create_cq",
	[MRG_CALL_MMAP] = "mmap",
	[MRG_CALL_MADVISE] = "madvise",
	NULL,
};

#define AT(field) ARGS_AT(struct explain_args, field)
static const struct args_option options[] = {
	{ .value = "process", .kind = ARGS_PROCESS, AT(opts.pid) },
	{ .help = "What failed:" },
	{ "error", "ERRNO", "Its errno: ENOMEM, 12; 524 is ENOTSUPP", ARGS_OTHER,
	  .parse = parse_error },
	{ "call", "NAME",
	  "ibv_reg_mr (default), ibv_reg_dmabuf_mr, ibv_create_qp, ibv_create_cq, "
	  "mmap or madvise",
	  ARGS_WORD, AT(opts.call), .words = calls },
	{ .help = "The buffer:" },
	{ "address", "A", "Its first byte", ARGS_NUMBER, AT(opts.addr) },
	{ "length", "N", "Its length: 84424509440, 12G", ARGS_NUMBER, AT(opts.length) },
	{ "devices", "N", "How many devices it is registered on (1)", ARGS_NUMBER, AT(opts.devices),
	  .min = 1, .max = 1024 },
	{ "page-size", "N", "Huge page that it lies in (looked up in smaps)", ARGS_POWER,
	  AT(opts.page_size) },
	{ "offset", "N", "Where it begins in its DMA-BUF", ARGS_NUMBER, AT(opts.offset) },
	{ "dmabuf-size", "N", "Size of the DMA-BUF (size: in /proc/PID/fdinfo/FD)", ARGS_NUMBER,
	  AT(opts.dmabuf_size) },
	{ .help = "The device:" },
	{ "device", "NAME", "RDMA device to ask for its limits and its MRs", ARGS_TEXT,
	  AT(opts.device) },
	{ "max-mr-size", "N", "Its largest MR", ARGS_NUMBER, AT(opts.max_mr_size) },
	{ "mrs", "N", "MRs in use on it", ARGS_NUMBER, AT(opts.mrs) },
	{ "max-mrs", "N", "The most MRs that it can have", ARGS_NUMBER, AT(opts.max_mrs) },
	{ .help = "Source and output:" },
	{ "all", NULL, "Show also why a cause is ruled out", ARGS_FLAG, AT(all) },
	{ .kind = ARGS_GROUP, .group = root_options, AT(root) },
	{ .kind = ARGS_GROUP, .group = output_options, AT(output) },
	{ 0 },
};

static void check_args(const struct argp_state *state, const void *filled)
{
	const struct mrg_explain_opts *opts = &((const struct explain_args *)filled)->opts;

	if (!opts->error)
		argp_error(state, "--error is needed: the errno to explain.");
	if (!opts->pid)
		argp_error(state, "The process that got the errno is needed, by its ID.");
	if (opts->length > UINT64_MAX - opts->addr)
		argp_error(state, "--address and --length together exceed 64 bits.");
	if (opts->length > UINT64_MAX - opts->offset)
		argp_error(state, "--offset and --length together exceed 64 bits.");
}

static const struct args_command command = {
	.options = options,
	.check = check_args,
	.usage = "PID --error ERRNO",
	.doc = "Tell the causes of a failed registration apart: VMA limit, memlock, "
	       "MR size, device keys, holes, huge pages, device memory, and what is "
	       "wrong with a DMA-BUF."
	       "\v"
	       "The process is judged by its own limits, as they are now.  Exit "
	       "status: 0 where one cause fits; 2 for wrong usage; 3 where none or "
	       "several causes fit, or the process cannot be seen.",
};

static enum term_style style_of(enum mrg_likelihood likelihood)
{
	switch (likelihood) {
	case MRG_IS:
		return TERM_BAD;
	case MRG_MAY_BE:
		return TERM_WARN;
	case MRG_NOT_SEEN:
		return TERM_STRONG;
	case MRG_IS_NOT:
		break;
	}
	return TERM_GOOD;
}

static void print_finding(const struct term *term, const struct mrg_finding *finding)
{
	term_print(term, style_of(finding->likelihood), "%-9s",
		   mrg_likelihood_name(finding->likelihood));
	fprintf(term->out, " %s\n", mrg_cause_name(finding->cause));
	term_wrap(term, 10, finding->text);
	if (finding->remedy[0])
		term_wrap(term, 10, finding->remedy);
}

/* What it is, and what to do about it; then the causes that are not ruled out. */
static void print_text(const struct term *term, const struct mrg_explanation *explanation, bool all)
{
	const struct mrg_finding *first = &explanation->findings[0];
	struct term_names ruled_out = { .length = 0 };

	term_wrap(term, 0, explanation->summary);
	if (first->likelihood == MRG_IS && first->remedy[0]) {
		fputs("What to do: ", term->out);
		term_wrap(term, 0, first->remedy);
	}
	fputc('\n', term->out);
	for (int i = 0; i < MRG_CAUSES; i++) {
		const struct mrg_finding *finding = &explanation->findings[i];

		if (all || finding->likelihood != MRG_IS_NOT)
			print_finding(term, finding);
		else
			term_names_add(&ruled_out, mrg_cause_name(finding->cause), "");
	}
	if (ruled_out.length) {
		term_print(term, style_of(MRG_IS_NOT), "%s\n", mrg_likelihood_name(MRG_IS_NOT));
		term_wrap(term, 10, ruled_out.text);
	}
}

static int print_json(const struct explain_args *args, const struct mrg_explanation *explanation)
{
	json_t *out = json_object(), *list = json_array();

	for (int i = 0; i < MRG_CAUSES; i++) {
		const struct mrg_finding *finding = &explanation->findings[i];
		json_t *item = json_object();

		json_put(&item, "cause", json_text(mrg_cause_name(finding->cause)));
		json_put(&item, "likelihood", json_text(mrg_likelihood_name(finding->likelihood)));
		json_put(&item, "text", json_text(finding->text));
		json_put(&item, "remedy", json_text(finding->remedy));
		json_array_append_new(list, item);
	}
	json_put(&out, "schema", json_string("mrguard.explain/1"));
	json_put(&out, "pid", json_count((uint64_t)args->opts.pid));
	json_put(&out, "call", json_text(mrg_call_name(args->opts.call)));
	json_put(&out, "errno", json_count((uint64_t)args->opts.error));
	json_put(&out, "summary", json_text(explanation->summary));
	json_put(&out, "causes", list);
	return json_print(out);
}

static int fail(const struct explain_args *args, int code)
{
	struct mrg_error error;

	base_error_set(&error, code, "read process",
		       "Give the ID of the process that the call failed in, while it runs.",
		       "Process %d cannot be seen: %s.", (int)args->opts.pid, strerror(-code));
	fail_print(&error);
	return EXIT_FAILED;
}

static int show(const struct explain_args *args)
{
	struct mrg_explanation explanation;
	struct term term;
	int ret = mrg_explain(&args->opts, &explanation);

	if (ret)
		return fail(args, ret);
	if (args->output.json) {
		if (print_json(args, &explanation))
			return EXIT_FAILED;
	} else {
		term_init(&term, stdout, args->output.colour);
		print_text(&term, &explanation, args->all);
	}
	return explanation.findings[0].likelihood == MRG_IS &&
			       explanation.findings[1].likelihood != MRG_IS ?
		       EXIT_OK :
		       EXIT_FAILED;
}

int cmd_explain(int argc, char **argv)
{
	struct explain_args args = { .opts = { .size = sizeof(args.opts) } };
	char proc[PATH_MAX];
	struct module module;
	int ret;

	if (args_parse(&command, argc, argv, &args))
		return EXIT_FAILED;
	args.opts.proc = args_path(proc, args.root, "/proc");
	module_open(&module);
	if (module.state == MODULE_LOADED && module.info.has_vma)
		args.opts.dev = module.dev;
	ret = show(&args);
	module_close(&module);
	return ret;
}
