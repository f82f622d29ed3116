/* SPDX-License-Identifier: MIT */
/* Schema mrguard.plan/1; mrguard-plan(1) lists the keys. */
#include "tools/json.h"
#include "tools/plan_report.h"

static json_t *hex_or_null(uint64_t value, bool present)
{
	return present ? json_hex(value) : json_null();
}

static json_t *json_outcome(const struct mrg_outcome *outcome)
{
	uint64_t bad = outcome->first_bad_offset;
	json_t *out = json_object();

	json_put(&out, "page_shift", json_count(outcome->page_shift));
	json_put(&out, "blocks", json_count(outcome->blocks));
	json_put(&out, "wrong_blocks", json_count(outcome->wrong_blocks));
	json_put(&out, "first_bad_offset", hex_or_null(bad, bad != MRG_NO_OFFSET));
	json_put(&out, "period", hex_or_null(outcome->period, outcome->period));
	return out;
}

static json_t *json_piece(const struct mrg_piece *piece)
{
	const struct mrg_outcome *outcome = &piece->outcome;
	json_t *out = json_object();

	json_put(&out, "offset", json_hex(piece->offset));
	json_put(&out, "length", json_hex(piece->length));
	json_put(&out, "iova", json_hex(piece->iova));
	json_put(&out, "page_shift", json_count(outcome->page_shift));
	json_put(&out, "blocks", json_count(outcome->blocks));
	json_put(&out, "verdict", json_string(mrg_verdict_name(outcome->verdict)));
	return out;
}

static json_t *json_pieces(const struct mrg_plan *plan)
{
	size_t count;
	const struct mrg_piece *pieces = mrg_plan_pieces(plan, &count);
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++) {
		if (!json_array_append_new(list, json_piece(&pieces[i])))
			continue;
		json_decref(list);
		return NULL;
	}
	return list;
}

static json_t *json_kernel(const struct kernel_answer *kernel)
{
	uint64_t bad, page;
	json_t *out;

	if (!kernel)
		return json_null();
	bad = kernel->said.first_wrong;
	page = kernel->said.page_size;
	out = json_object();
	json_put(&out, "walk", json_string(mrg_walk_name(kernel->walk)));
	json_put(&out, "page_shift", json_count(page ? (uint64_t)__builtin_ctzll(page) : 0));
	json_put(&out, "blocks", json_count(kernel->said.total_blocks));
	json_put(&out, "wrong_blocks", json_count(kernel->said.wrong));
	json_put(&out, "first_bad_offset", hex_or_null(bad, bad != MRG_NO_OFFSET));
	json_put(&out, "endless", json_boolean(kernel->said.endless));
	json_put(&out, "agrees", json_boolean(kernel->agrees));
	json_put(&out, "capped", json_boolean(kernel->capped));
	return out;
}

int plan_print_json(const struct plan_report *report)
{
	const struct mrg_plan *plan = report->plan;
	const struct mrg_outcome *single = mrg_plan_single(plan);
	enum mrg_strategy strategy = mrg_plan_strategy(plan);
	json_t *out = json_object();

	json_put(&out, "schema", json_string("mrguard.plan/1"));
	json_put(&out, "verdict", json_string(mrg_verdict_name(single->verdict)));
	json_put(&out, "reason", json_text(mrg_plan_reason(plan)));
	json_put(&out, "single", json_outcome(single));
	json_put(&out, "strategy", json_string(mrg_strategy_name(strategy)));
	json_put(&out, "pieces", json_pieces(plan));
	json_put(&out, "kernel", json_kernel(report->kernel));
	json_put(&out, "capped", json_boolean(report->opts->flags & MRG_PLAN_CAPPED));
	return json_print(out);
}
