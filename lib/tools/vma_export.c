/* SPDX-License-Identifier: MIT */
/* The report on VMAs, for programs: JSON, and Prometheus' text format. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/json.h"
#include "tools/prometheus.h"
#include "tools/vma_output.h"

static json_t *json_kinds(const struct mrg_vma_report *report)
{
	json_t *list = json_array();

	for (size_t i = 0; i < report->nkinds; i++) {
		json_t *out = json_object();

		json_put(&out, "kind", json_text(report->kinds[i].kind));
		json_put(&out, "count", json_count(report->kinds[i].count));
		json_put(&out, "bytes", json_count(report->kinds[i].bytes));
		json_put(&out, "dontcopy", json_count(report->kinds[i].dontcopy));
		json_array_append_new(list, out);
	}
	return list;
}

static json_t *json_families(const struct mrg_vma_report *report)
{
	json_t *list = json_array();

	for (size_t i = 0; i < report->nfamilies; i++) {
		const struct mrg_vma_family *family = &report->families[i];
		json_t *out = json_object();

		json_put(&out, "bytes", json_count(family->length));
		json_put(&out, "count", json_count(family->count));
		json_put(&out, "dontcopy", json_count(family->dontcopy));
		json_put(&out, "perms", json_text(family->perms));
		json_put(&out, "kind", json_text(family->kind));
		json_array_append_new(list, out);
	}
	return list;
}

static json_t *json_pieces(const struct mrg_vma_report *report)
{
	json_t *out;

	if (!report->flags_known)
		return json_null();
	out = json_object();
	json_put(&out, "exact", json_boolean(report->exact));
	json_put(&out, "dontcopy", json_count(report->dontcopy));
	json_put(&out, "special", json_count(report->special));
	json_put(&out, "joinable", json_count(report->joinable));
	json_put(&out, "stuck_anon", json_count(report->stuck_anon));
	json_put(&out, "stuck_special", json_count(report->stuck_special));
	json_put(&out, "stuck_file", json_count(report->stuck_file));
	json_put(&out, "stuck_other", json_count(report->stuck_other));
	return out;
}

static json_t *json_forecast(const struct vma_output *output)
{
	struct mrg_vma_forecast forecast;
	json_t *out;

	if (!vma_forecast_of(output, &forecast))
		return json_null();
	out = json_object();
	json_put(&out, "per_minute", json_real(forecast.per_minute));
	json_put(&out, "seconds_left",
		 forecast.seconds_left < 0 ? json_null() : json_real(forecast.seconds_left));
	return out;
}

int vma_print_json(const struct vma_output *output)
{
	const struct mrg_vma_report *report = output->report;
	json_t *out = json_object();

	json_put(&out, "schema", json_string("mrguard.vma/1"));
	json_put(&out, "pid", report->pid ? json_count((uint64_t)report->pid) : json_null());
	json_put(&out, "comm", output->comm[0] ? json_text(output->comm) : json_null());
	json_put(&out, "count", json_count(report->count));
	json_put(&out, "limit", report->limit ? json_count(report->limit) : json_null());
	json_put(&out, "state", json_string(mrg_vma_state_name(report->state)));
	json_put(&out, "forecast", json_forecast(output));
	json_put(&out, "alike", json_count(report->alike));
	json_put(&out, "pieces", json_pieces(report));
	json_put(&out, "fork_pieces", json_count(report->fork_pieces));
	json_put(&out, "families", json_families(report));
	json_put(&out, "unlisted", json_count(report->unlisted));
	json_put(&out, "kinds", json_kinds(report));
	json_put(&out, "verdict", json_text(report->verdict));
	json_put(&out, "remedy", json_text(report->remedy));
	return json_print(out);
}

static void print_process(FILE *out, const struct vma_output *output)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)output->report->pid);
	prometheus_label(out, "pid", pid);
	fputc(',', out);
	prometheus_label(out, "comm", output->comm);
}

static void print_help(FILE *out, const char *name, const char *help)
{
	fprintf(out, "# HELP mrguard_vma_%s %s\n# TYPE mrguard_vma_%s gauge\n", name, help, name);
}

static void print_gauge(FILE *out, const struct vma_output *output, const char *name,
			const char *help, double value)
{
	print_help(out, name, help);
	fprintf(out, "mrguard_vma_%s{", name);
	print_process(out, output);
	fprintf(out, "} %.17g\n", value);
}

static void print_stuck(FILE *out, const struct vma_output *output)
{
	const struct mrg_vma_report *report = output->report;
	const struct {
		const char *reason;
		uint64_t count;
	} reasons[] = {
		{ "anon_vma", report->stuck_anon },
		{ "special", report->stuck_special },
		{ "file", report->stuck_file },
		{ "other", report->stuck_other },
	};

	print_help(out, "stuck_pairs", "Neighbours with equal flags that never merge, by reason.");
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		fprintf(out, "mrguard_vma_stuck_pairs{");
		print_process(out, output);
		fprintf(out, ",reason=\"%s\"} %" PRIu64 "\n", reasons[i].reason, reasons[i].count);
	}
}

static void print_families(FILE *out, const struct vma_output *output)
{
	const struct mrg_vma_report *report = output->report;

	print_help(out, "family_count", "VMAs of one kind, permissions and exact size.");
	for (size_t i = 0; i < report->nfamilies; i++) {
		const struct mrg_vma_family *family = &report->families[i];

		fprintf(out, "mrguard_vma_family_count{");
		print_process(out, output);
		fprintf(out, ",bytes=\"%" PRIu64 "\",", family->length);
		prometheus_label(out, "perms", family->perms);
		fputc(',', out);
		prometheus_label(out, "kind", family->kind);
		fprintf(out, "} %" PRIu64 "\n", family->count);
	}
}

static void print_kinds(FILE *out, const struct vma_output *output)
{
	const struct mrg_vma_report *report = output->report;

	print_help(out, "kind_count", "VMAs of one kind.");
	for (size_t i = 0; i < report->nkinds; i++) {
		fprintf(out, "mrguard_vma_kind_count{");
		print_process(out, output);
		fputc(',', out);
		prometheus_label(out, "kind", report->kinds[i].kind);
		fprintf(out, "} %" PRIu64 "\n", report->kinds[i].count);
	}
}

static void print_pieces(FILE *out, const struct vma_output *output)
{
	const struct mrg_vma_report *report = output->report;

	if (!report->flags_known)
		return;
	print_gauge(out, output, "dontcopy",
		    "VMAs that are VM_DONTCOPY, as fork protection marks them.",
		    (double)report->dontcopy);
	print_gauge(out, output, "special", "VMAs that never merge by nature (devices, hugetlb).",
		    (double)report->special);
	print_gauge(out, output, "joinable_pairs",
		    "Neighbours that merge once their VM_DONTCOPY goes.", (double)report->joinable);
	print_stuck(out, output);
}

void vma_print_prometheus(FILE *out, const struct vma_output *output)
{
	const struct mrg_vma_report *report = output->report;
	struct mrg_vma_forecast forecast;

	print_gauge(out, output, "count", "VMAs that the process holds.", (double)report->count);
	if (report->limit)
		print_gauge(out, output, "limit", "vm.max_map_count.", (double)report->limit);
	if (vma_forecast_of(output, &forecast)) {
		print_gauge(out, output, "growth_per_minute", "How fast the count grows.",
			    forecast.per_minute);
		if (forecast.seconds_left >= 0)
			print_gauge(out, output, "seconds_left",
				    "Until the limit is reached at that rate.",
				    forecast.seconds_left);
	}
	print_pieces(out, output);
	print_families(out, output);
	print_kinds(out, output);
}
