/* SPDX-License-Identifier: MIT */
/* mrguard gpu: the GPUs of this host, what each can do, and why not. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <mrguard/gpu.h>

#include "base/error.h"
#include "tools/args.h"
#include "tools/commands.h"
#include "tools/fail.h"
#include "tools/json.h"

struct gpu_args {
	struct output_args output;
	const char *root;
};

#define AT(field) ARGS_AT(struct gpu_args, field)
static const struct args_option options[] = {
	{ .kind = ARGS_GROUP, .group = root_options, AT(root) },
	{ .kind = ARGS_GROUP, .group = output_options, AT(output) },
	{ 0 },
};

static const struct args_command command = {
	.options = options,
	.doc = "Show the GPUs of this host, and what each can do for RDMA."
	       "\v"
	       "Initialises CUDA and HIP where their kernel drivers are loaded; makes no "
	       "context.  What an address in a process is, that process asks the library: "
	       "mrg_gpu(3).",
};

/* What a GPU can do, in the order of both outputs. */
static const struct ability {
	const char *key;
	const char *title;
	size_t offset;
} abilities[] = {
	{ "dmabuf", "DMA-BUF", offsetof(struct mrg_gpu_device, dmabuf) },
	{ "vmm_rdma", "VMM with RDMA", offsetof(struct mrg_gpu_device, vmm_rdma) },
	{ "share_fd", "VMM by fd", offsetof(struct mrg_gpu_device, share_fd) },
	{ "fabric", "fabric", offsetof(struct mrg_gpu_device, fabric) },
	{ "coherent", "coherent (ATS)", offsetof(struct mrg_gpu_device, coherent) },
};
#define ABILITIES (sizeof(abilities) / sizeof(abilities[0]))

static const struct mrg_gpu_cap *cap_of(const struct mrg_gpu_device *device, size_t i)
{
	return (const struct mrg_gpu_cap *)((const char *)device + abilities[i].offset);
}

struct version_text {
	char text[16];
};

/* CUDA counts 13000 for 13.0, HIP 60443484 for 6.4. */
static struct version_text version_text(const struct mrg_gpu_runtime *runtime)
{
	struct version_text v = { "" };
	bool cuda = !strcmp(runtime->vendor, "CUDA");

	if (runtime->version && cuda)
		snprintf(v.text, sizeof(v.text), "%d.%d", runtime->version / 1000,
			 runtime->version % 1000 / 10);
	else if (runtime->version)
		snprintf(v.text, sizeof(v.text), "%d.%d", runtime->version / 10000000,
			 runtime->version / 100000 % 100);
	return v;
}

struct uuid_text {
	char text[37];
};

static struct uuid_text uuid_text(const struct mrg_gpu_device *device)
{
	static const uint8_t none[16];
	struct uuid_text u = { "" };
	size_t used = 0;

	if (!memcmp(device->uuid, none, sizeof(none)))
		return u;
	for (int i = 0; i < 16; i++)
		used += (size_t)snprintf(u.text + used, sizeof(u.text) - used, "%s%02x",
					 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
					 device->uuid[i]);
	return u;
}

/* ---- for people ---- */

static void print_runtime(const struct term *term, const struct mrg_gpu_runtime *r)
{
	fprintf(term->out, "%-5s", r->vendor);
	if (r->usable)
		term_print(term, TERM_GOOD, "%s", version_text(r).text);
	else
		term_print(term, TERM_FAINT, "not usable: %s", r->why);
	if (r->kernel[0])
		fprintf(term->out, ", kernel driver %s", r->kernel);
	fputc('\n', term->out);
}

static void print_device(const struct term *term, const struct mrg_gpu_device *d)
{
	fputc('\n', term->out);
	term_print(term, TERM_STRONG, "%s", d->name);
	fprintf(term->out, "  %s  driver %s", d->pci, d->driver[0] ? d->driver : "-");
	if (d->memory)
		fprintf(term->out, "  memory %s", term_size(d->memory).text);
	if (d->bar)
		fprintf(term->out, "  BAR %s", term_size(d->bar).text);
	fputc('\n', term->out);
	for (size_t i = 0; i < ABILITIES; i++) {
		const struct mrg_gpu_cap *cap = cap_of(d, i);

		fprintf(term->out, "  %-15s", abilities[i].title);
		term_print(term, cap->yes ? TERM_GOOD : TERM_WARN, "%s", cap->yes ? "yes" : "no");
		fprintf(term->out, "%s%s\n", cap->why[0] ? ": " : "", cap->why);
	}
}

static void print_list(const struct term *term, const struct mrg_gpu_list *list)
{
	for (int i = 0; i < 2; i++)
		print_runtime(term, &list->runtimes[i]);
	if (!list->count)
		fprintf(term->out, "\nno GPU of NVIDIA or AMD is on the PCI bus\n");
	for (size_t i = 0; i < list->count; i++)
		print_device(term, &list->devices[i]);
}

/* ---- for programs ---- */

static json_t *json_runtime(const struct mrg_gpu_runtime *r)
{
	return json_pack("{s:o, s:b, s:o, s:o, s:o}", "runtime", json_text(r->vendor), "usable",
			 r->usable, "version", json_text(version_text(r).text), "kernel_driver",
			 json_text(r->kernel), "why", json_text(r->why));
}

static json_t *json_device(const struct mrg_gpu_device *d)
{
	json_t *object;

	object = json_pack("{s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "runtime",
			   json_text(d->vendor), "ordinal", (int)d->ordinal, "name",
			   json_text(d->name), "pci", json_text(d->pci), "uuid",
			   json_text(uuid_text(d).text), "driver", json_text(d->driver), "memory",
			   json_count(d->memory), "bar", json_count(d->bar));
	for (size_t i = 0; object && i < ABILITIES; i++) {
		const struct mrg_gpu_cap *cap = cap_of(d, i);

		json_object_set_new(object, abilities[i].key,
				    json_pack("{s:b, s:o}", "able", cap->yes, "why",
					      json_text(cap->why)));
	}
	return object;
}

static int print_json(const struct mrg_gpu_list *list)
{
	json_t *runtimes = json_array(), *devices = json_array();

	for (int i = 0; i < 2; i++)
		json_array_append_new(runtimes, json_runtime(&list->runtimes[i]));
	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(devices, json_device(&list->devices[i]));
	return json_print(json_pack("{s:s, s:o, s:o}", "schema", "mrguard.gpu/1", "runtimes",
				    runtimes, "gpus", devices));
}

static int show(const struct gpu_args *args, const struct mrg_gpu_list *list)
{
	struct term term;

	if (args->output.json)
		return print_json(list);
	term_init(&term, stdout, args->output.colour);
	print_list(&term, list);
	return 0;
}

int cmd_gpu(int argc, char **argv)
{
	struct gpu_args args = { 0 };
	struct mrg_gpu_opts opts = { .size = sizeof(opts) };
	struct mrg_error error = { .code = -ENOMEM,
				   .cause = "There is no memory for the list of GPUs." };
	struct mrg_gpu_list list;
	char sysfs[PATH_MAX];
	struct mrg_gpu *gpu;
	int ret;

	if (args_parse(&command, argc, argv, &args))
		return EXIT_FAILED;
	opts.sysfs = args_path(sysfs, args.root, "/sys");
	ret = mrg_gpu_open(&gpu, &opts);
	if (ret) {
		base_error_set(&error, ret, "open", "", "The GPU library cannot be opened: %s.",
			       strerror(-ret));
		return fail_status(ret, &error);
	}
	ret = mrg_gpu_devices(gpu, &list);
	if (!ret) {
		ret = show(&args, &list);
		mrg_gpu_list_release(&list);
	} else {
		mrg_gpu_last_error(gpu, &error);
	}
	mrg_gpu_close(gpu);
	return fail_status(ret, &error);
}
