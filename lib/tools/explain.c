/* SPDX-License-Identifier: MIT */
/* mrguard explain: why a call failed, by each cause's own evidence. */
#include <argp.h>
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

enum {
	KEY_CALL = 0x100,
	KEY_ERROR,
	KEY_ADDRESS,
	KEY_LENGTH,
	KEY_DEVICE,
	KEY_DEVICES,
	KEY_MAX_MR_SIZE,
	KEY_MRS,
	KEY_MAX_MRS,
	KEY_PAGE_SIZE,
	KEY_OFFSET,
	KEY_DMABUF_SIZE,
	KEY_PROC,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What failed:", 1 },
	{ "error", KEY_ERROR, "ERRNO", 0, "Its errno: ENOMEM, 12; 524 is ENOTSUPP", 0 },
	{ "call", KEY_CALL, "NAME", 0,
	  "ibv_reg_mr (default), ibv_reg_dmabuf_mr, ibv_create_qp, ibv_create_cq, "
	  "mmap or madvise",
	  0 },
	{ NULL, 0, NULL, 0, "The buffer:", 2 },
	{ "address", KEY_ADDRESS, "A", 0, "Its first byte", 0 },
	{ "length", KEY_LENGTH, "N", 0, "Its length: 84424509440, 12G", 0 },
	{ "devices", KEY_DEVICES, "N", 0, "How many devices it is registered on (1)", 0 },
	{ "page-size", KEY_PAGE_SIZE, "N", 0, "Huge page that it lies in (looked up in smaps)", 0 },
	{ "offset", KEY_OFFSET, "N", 0, "Where it begins in its DMA-BUF", 0 },
	{ "dmabuf-size", KEY_DMABUF_SIZE, "N", 0,
	  "Size of the DMA-BUF (size: in /proc/PID/fdinfo/FD)", 0 },
	{ NULL, 0, NULL, 0, "The device:", 3 },
	{ "device", KEY_DEVICE, "NAME", 0, "RDMA device to ask for its limits and its MRs", 0 },
	{ "max-mr-size", KEY_MAX_MR_SIZE, "N", 0, "Its largest MR", 0 },
	{ "mrs", KEY_MRS, "N", 0, "MRs in use on it", 0 },
	{ "max-mrs", KEY_MAX_MRS, "N", 0, "The most MRs that it can have", 0 },
	{ NULL, 0, NULL, 0, "Source:", 4 },
	{ "proc", KEY_PROC, "DIR", 0, "Read from DIR, a copy of /proc", 0 },
	{ 0 },
};

struct explain_args {
	struct mrg_explain_opts opts;
	struct output_args output;
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

static void parse_process(struct argp_state *state, const char *arg)
{
	struct explain_args *args = state->input;

	if (args->opts.pid)
		argp_error(state, "The process \"%s\" is one too many.", arg);
	if (strcmp(arg, "self"))
		args->opts.pid = args_pid(state, "argument", arg);
}

static void check_args(struct argp_state *state)
{
	const struct mrg_explain_opts *opts = &((const struct explain_args *)state->input)->opts;

	if (!opts->error)
		argp_error(state, "--error is needed: the errno to explain.");
	if (!opts->pid)
		argp_error(state, "The process that got the errno is needed, by its ID.");
	if (opts->length > UINT64_MAX - opts->addr)
		argp_error(state, "--address and --length together exceed 64 bits.");
	if (opts->length > UINT64_MAX - opts->offset)
		argp_error(state, "--offset and --length together exceed 64 bits.");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct explain_args *args = state->input;
	struct mrg_explain_opts *opts = &args->opts;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->output;
		return 0;
	case KEY_ERROR:
		opts->error = parse_errno(arg);
		if (!opts->error)
			args_expect(state, "--error", arg, "an errno");
		return 0;
	case KEY_CALL:
		if (mrg_call_parse(arg, &opts->call))
			args_expect(state, "--call", arg,
				    "ibv_reg_mr, ibv_reg_dmabuf_mr, ibv_create_qp, ibv_create_cq, "
				    "mmap or madvise");
		return 0;
	case KEY_ADDRESS:
		opts->addr = args_size(state, "--address", arg);
		return 0;
	case KEY_LENGTH:
		opts->length = args_size(state, "--length", arg);
		return 0;
	case KEY_DEVICE:
		opts->device = arg;
		return 0;
	case KEY_DEVICES:
		opts->devices = (uint32_t)args_between(state, "--devices", arg, 1, 1024);
		return 0;
	case KEY_MAX_MR_SIZE:
		opts->max_mr_size = args_size(state, "--max-mr-size", arg);
		return 0;
	case KEY_MRS:
		opts->mrs = args_size(state, "--mrs", arg);
		return 0;
	case KEY_MAX_MRS:
		opts->max_mrs = args_size(state, "--max-mrs", arg);
		return 0;
	case KEY_PAGE_SIZE:
		opts->page_size = args_size(state, "--page-size", arg);
		if (opts->page_size & (opts->page_size - 1))
			args_expect(state, "--page-size", arg, "a power of two");
		return 0;
	case KEY_OFFSET:
		opts->offset = args_size(state, "--offset", arg);
		return 0;
	case KEY_DMABUF_SIZE:
		opts->dmabuf_size = args_size(state, "--dmabuf-size", arg);
		return 0;
	case KEY_PROC:
		opts->proc = arg;
		return 0;
	case ARGP_KEY_ARG:
		parse_process(state, arg);
		return 0;
	case ARGP_KEY_END:
		check_args(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &output_argp, 0, NULL, 0 }, { 0 } };

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.children = children,
	.args_doc = "PID --error ERRNO",
	.doc = "Tell the causes of a failed registration apart: VMA limit, memlock, "
	       "MR size, device keys, holes, huge pages, device memory, and what is "
	       "wrong with a DMA-BUF."
	       "\v"
	       "The process is judged by its own limits, as they are now.  Exit "
	       "status: 0 where one cause fits; 3 where none or several do; 1 where "
	       "the process cannot be seen; 2 for a wrong command line.",
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

static void print_text(const struct term *term, const struct mrg_explanation *explanation)
{
	term_wrap(term, 0, explanation->summary);
	fputc('\n', term->out);
	for (int i = 0; i < MRG_CAUSES; i++)
		print_finding(term, &explanation->findings[i]);
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
		print_text(&term, &explanation);
	}
	return explanation.findings[0].likelihood == MRG_IS &&
			       explanation.findings[1].likelihood != MRG_IS ?
		       EXIT_OK :
		       EXIT_AT_RISK;
}

int cmd_explain(int argc, char **argv)
{
	struct explain_args args = { .opts = { .size = sizeof(args.opts) } };
	struct module module;
	int ret;

	if (args_parse(&argp, argc, argv, 0, &args))
		return EXIT_FAILED;
	module_open(&module);
	if (module.state == MODULE_LOADED && module.info.has_vma)
		args.opts.dev = module.dev;
	ret = show(&args);
	module_close(&module);
	return ret;
}
