/* SPDX-License-Identifier: MIT */
/* mrguard layout: the DMA addresses behind a DMA-BUF, to read or to keep. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/error.h"
#include "tools/args.h"
#include "tools/buffer_args.h"
#include "tools/commands.h"
#include "tools/fail.h"
#include "tools/json.h"
#include "tools/live.h"
#include "tools/parse.h"
#include "tools/term.h"

struct layout_args {
	struct buffer_args buffer;
	const char *dump;
	bool entries;
	struct output_args output;
};

#define AT(field) ARGS_AT(struct layout_args, field)
static const struct args_option options[] = {
	{ .help = "The buffer:" },
	{ .kind = ARGS_GROUP, .group = buffer_options, AT(buffer) },
	{ .kind = ARGS_GROUP, .group = output_options, AT(output) },
	{ "dump", "FILE", "Write the list that `mrguard plan --sg' reads; - is standard output",
	  ARGS_TEXT, AT(dump) },
	{ "entries", NULL, "Scatter-list entries as mapped, contiguous ones not joined", ARGS_FLAG,
	  AT(entries) },
	{ 0 },
};

static void check_args(const struct argp_state *state, const void *filled)
{
	const struct layout_args *args = filled;

	if (!args->buffer.dmabuf_from || !args->buffer.importer)
		argp_error(state, "--dmabuf-from and --importer are needed.");
	if (args->output.json && args->dump && !strcmp(args->dump, "-"))
		argp_error(state, "--json and --dump=- cannot both write to standard output.");
}

static const struct args_command command = {
	.options = options,
	.check = check_args,
	.usage = "--dmabuf-from KIND:SPEC --importer DEVICE",
	.doc = "Show the DMA addresses behind a DMA-BUF, as one device maps it."
	       "\v"
	       "Needs the module.  Root sees the addresses themselves, others "
	       "equivalent ones, from which the same plan follows; a dump says "
	       "which it holds.  See mrguard-layout(1).",
};

static const char *iommu_name(enum mrg_iommu iommu)
{
	switch (iommu) {
	case MRG_IOMMU_MODE_NONE:
		return "none";
	case MRG_IOMMU_MODE_IDENTITY:
		return "identity";
	case MRG_IOMMU_MODE_TRANSLATED:
		return "translated";
	default:
		return "unknown";
	}
}

/* The list holds whole pages, so the range starts that much into it. */
static uint64_t offset_in_list(const struct live *live)
{
	return live->offset - live->layout.start;
}

static void write_header(FILE *out, const struct layout_args *args, const struct live *live)
{
	const struct mrg_layout *layout = &live->layout;
	struct utsname host;

	uname(&host);
	fprintf(out, "# mrguard %s layout, kernel %s\n", mrg_version(), host.release);
	fprintf(out, "# exporter %s (%s), importer %s%s%s, iommu %s\n", layout->exporter,
		args->buffer.dmabuf_from, pci_text(&live->importer).text, live->rdma[0] ? " " : "",
		live->rdma, iommu_name(layout->iommu));
	fprintf(out, "# DMA-BUF of %s, %" PRIu64 " entries as mapped, %s\n",
		term_size(layout->dmabuf_size).text, layout->entries,
		args->entries ? "listed as they are" : "contiguous ones joined");
	if (layout->equivalent)
		fprintf(out, PARSE_NOTE "0x%" PRIx64 "\n", live->iova - offset_in_list(live));
	else
		fprintf(out, "# raw addresses\n");
	fprintf(out,
		"# mrguard plan --sg THIS_FILE --iova 0x%" PRIx64 " --offset 0x%" PRIx64
		" --length 0x%" PRIx64 "%s%s\n",
		live->iova, offset_in_list(live), live->length,
		layout->iommu == MRG_IOMMU_MODE_TRANSLATED ? " --translated" : "",
		layout->moves ? " --moves" : "");
}

static int write_dump(const struct layout_args *args, const struct live *live,
		      struct mrg_error *error)
{
	bool to_stdout = !strcmp(args->dump, "-");
	FILE *out = to_stdout ? stdout : fopen(args->dump, "we");
	bool failed;

	if (!out)
		return base_error_set(error, -errno, "write dump",
				      "Check the name and its permissions.",
				      "The file %.150s cannot be opened: %s.", args->dump,
				      strerror(errno));
	write_header(out, args, live);
	for (size_t i = 0; i < live->layout.count; i++)
		fprintf(out, "0x%" PRIx64 " 0x%" PRIx64 "\n", live->layout.sg[i].addr,
			live->layout.sg[i].len);
	failed = ferror(out);
	if (!to_stdout)
		failed |= fclose(out) != 0;
	return failed ? base_error_set(error, -EIO, "write dump", "Check that its disk has room.",
				       "The file %.150s could not be written whole.", args->dump) :
			0;
}

static void print_text(const struct term *term, const struct layout_args *args,
		       const struct live *live)
{
	const struct mrg_layout *layout = &live->layout;
	FILE *out = term->out;

	fprintf(out, "buffer     %s, %s\n", args->buffer.dmabuf_from,
		term_size(layout->dmabuf_size).text);
	fprintf(out, "exporter   %s%s\n", layout->exporter,
		layout->moves ? ": can move the memory later" : "");
	fprintf(out, "importer   %s%s%s, largest segment %s\n", pci_text(&live->importer).text,
		live->rdma[0] ? " " : "", live->rdma, term_size(layout->max_seg_size).text);
	fprintf(out, "iommu      %s%s\n", iommu_name(layout->iommu),
		layout->iommu == MRG_IOMMU_MODE_TRANSLATED ?
			": an MR gets addresses of its own, not these" :
			"");
	fprintf(out, "range      offset 0x%" PRIx64 ", %s, iova 0x%" PRIx64 "\n", live->offset,
		term_size(live->length).text, live->iova);
	fprintf(out, "entries    %" PRIu64 " as mapped, in %" PRIu64 " us\n", layout->entries,
		layout->map_ns / 1000);
	fprintf(out, "%-10s %zu, %s addresses\n\n", args->entries ? "listed" : "runs",
		layout->count, layout->equivalent ? "equivalent" : "raw");
}

#define MAX_LISTED 16 /* on a terminal; --dump has them all */

static void print_list(const struct term *term, const struct live *live)
{
	const struct mrg_layout *layout = &live->layout;
	uint64_t offset = layout->start;
	size_t listed = layout->count;

	if (term->tty && listed > MAX_LISTED)
		listed = MAX_LISTED;
	term_print(term, TERM_FAINT, "  %18s  %18s  %18s\n", "offset", "DMA address", "length");
	for (size_t i = 0; i < listed; i++) {
		fprintf(term->out, "  %#18" PRIx64 "  %#18" PRIx64 "  %#18" PRIx64 "  %s\n", offset,
			layout->sg[i].addr, layout->sg[i].len, term_size(layout->sg[i].len).text);
		offset += layout->sg[i].len;
	}
	if (listed < layout->count)
		fprintf(term->out, "  ... %zu more (--dump FILE has them)\n",
			layout->count - listed);
}

static int print_json(const struct live *live)
{
	const struct mrg_layout *layout = &live->layout;
	struct pci_text importer = pci_text(&live->importer);
	json_t *out = json_object();

	json_put(&out, "schema", json_string("mrguard.layout/1"));
	json_put(&out, "exporter", json_text(layout->exporter));
	json_put(&out, "importer", json_text(importer.text));
	json_put(&out, "rdma", live->rdma[0] ? json_text(live->rdma) : json_null());
	json_put(&out, "iommu", json_string(iommu_name(layout->iommu)));
	json_put(&out, "dmabuf_size", json_hex(layout->dmabuf_size));
	json_put(&out, "iova", json_hex(live->iova));
	json_put(&out, "offset", json_hex(live->offset));
	json_put(&out, "length", json_hex(live->length));
	json_put(&out, "entries", json_count(layout->entries));
	json_put(&out, "listed", json_count(layout->count));
	json_put(&out, "max_seg_size", json_hex(layout->max_seg_size));
	json_put(&out, "moves", json_boolean(layout->moves));
	json_put(&out, "addresses", json_string(layout->equivalent ? "equivalent" : "raw"));
	return json_print(out);
}

static int need_layout(const struct live *live, struct mrg_error *error)
{
	enum module_state state = live->module.state;

	if (live->has_layout)
		return 0;
	return base_error_set(
		error, live->module.code ? live->module.code : -EOPNOTSUPP, "ask module",
		module_state_remedy(state), "A layout needs the module mrguard (%s).",
		state == MODULE_LOADED ? "it has no layouts" : module_state_text(state));
}

static int show(const struct layout_args *args, const struct live *live, struct mrg_error *error)
{
	struct term term;
	int ret = need_layout(live, error);

	if (!ret && args->dump)
		ret = write_dump(args, live, error);
	if (ret)
		return ret;
	if (args->output.json)
		return print_json(live);
	if (args->dump && !strcmp(args->dump, "-"))
		return 0;
	term_init(&term, stdout, args->output.colour);
	print_text(&term, args, live);
	if (!args->dump)
		print_list(&term, live);
	return 0;
}

int cmd_layout(int argc, char **argv)
{
	struct layout_args args = { 0 };
	struct mrg_error error = { 0 };
	struct live live;
	int ret;

	if (args_parse(&command, argc, argv, &args))
		return EXIT_FAILED;
	ret = live_open(&args.buffer, args.entries, &live, &error);
	if (!ret) {
		ret = show(&args, &live, &error);
		live_close(&live);
	}
	return fail_status(ret, &error);
}
