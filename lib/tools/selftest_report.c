/* SPDX-License-Identifier: MIT */
/* The report of a self-test; JSON schema mrguard.selftest/1, whose keys
 * mrguard-selftest(1) lists. */
#include <inttypes.h>
#include <string.h>

#include "tools/json.h"
#include "tools/selftest.h"

static const char *const kind_names[VERIFY_KINDS] = {
	[VERIFY_MOVED] = "moved",
	[VERIFY_OVERWRITTEN] = "overwritten",
	[VERIFY_LOST] = "lost",
	[VERIFY_NOISE] = "noise",
};

static const char *transfer_name(bool local, enum verify_way way)
{
	if (way == VERIFY_INTO)
		return local ? "READ into it" : "WRITE to it";
	return local ? "WRITE from it" : "READ of it";
}

struct distance_text {
	char text[32];
};

/* "X - 2^32": what aliases does so at a power of two. */
static struct distance_text distance_text(int64_t distance)
{
	uint64_t size = distance < 0 ? -(uint64_t)distance : (uint64_t)distance;
	struct distance_text out;

	if (size & (size - 1))
		snprintf(out.text, sizeof(out.text), "X %c 0x%" PRIx64, distance < 0 ? '-' : '+',
			 size);
	else
		snprintf(out.text, sizeof(out.text), "X %c 2^%d", distance < 0 ? '-' : '+',
			 __builtin_ctzll(size));
	return out;
}

const char *selftest_hint(const struct selftest_args *args, const struct selftest_result *result)
{
	enum mrg_verdict verdict = result->has_prediction ? result->predicted.verdict :
							    MRG_VERDICT_UNKNOWN;

	if (!result->wrong && !result->overwritten)
		return "";
	if (!args->raw)
		return "A registration by mrguard gives wrong bytes.  Please report it, with the output of `mrguard layout --dump'.";
	if (verdict == MRG_WRAPS || verdict == MRG_HANGS)
		return "One MR over this buffer is not safe on this kernel.  Register the buffer with mrguard.";
	if (verdict == MRG_SAFE)
		return "The kernel's block walk is not the cause, because one MR is safe here.  Look for 32-bit offsets in the program, in the device and in its firmware.";
	return "It is unknown whether the kernel's block walk is the cause, because it is unknown what one MR does here.  Register the buffer with mrguard, which is safe in any case.  If bytes are wrong then too, look for 32-bit offsets in the program, in the device and in its firmware.";
}

void selftest_note_plan(struct selftest_result *result, const struct mrg_plan *plan)
{
	result->strategy = plan ? mrg_plan_strategy(plan) : MRG_STRATEGY_NONE;
	result->has_prediction = plan;
	if (plan)
		result->predicted = *mrg_plan_single(plan);
}

static void print_prediction(const struct term *term, const struct selftest_result *result)
{
	const struct mrg_outcome *p = &result->predicted;

	if (!result->has_prediction)
		return;
	fprintf(term->out, "  one MR     ");
	term_print(term, p->verdict == MRG_SAFE ? TERM_GOOD : TERM_WARN, "%s",
		   mrg_verdict_name(p->verdict));
	if (p->first_bad_offset != MRG_NO_OFFSET)
		fprintf(term->out, ", expected to be wrong from offset 0x%" PRIx64 " on",
			p->first_bad_offset);
	fputc('\n', term->out);
}

static void print_group(const struct term *term, const struct selftest_group *g)
{
	fprintf(term->out, "  %-13s  ", transfer_name(g->local, g->way));
	switch (g->kind) {
	case VERIFY_MOVED:
		fprintf(term->out,
			g->way == VERIFY_INTO ? "bytes of offset X were found at %s" :
						"offset X gave the bytes of %s",
			distance_text(g->distance).text);
		break;
	case VERIFY_OVERWRITTEN:
		fprintf(term->out, "bytes of %s were found at offset X, right before",
			distance_text(g->distance).text);
		break;
	case VERIFY_LOST:
		fprintf(term->out, "bytes of offset X were found nowhere");
		break;
	default:
		fprintf(term->out, "offset X holds bytes of no offset");
	}
	fprintf(term->out, ": X from 0x%" PRIx64 " to 0x%" PRIx64 ", %" PRIu64 " places, %s\n",
		g->from, g->to, g->places, term_size(g->bytes).text);
}

void selftest_print_text(const struct term *term, const struct selftest_args *args,
			 const struct target *target, const struct selftest_result *result)
{
	bool clean = !result->wrong && !result->overwritten;

	term_print(term, TERM_STRONG, "%s, %s, on %s\n", target->spec, term_size(target->size).text,
		   args->device);
	fprintf(term->out, "  registered %s, %zu MR%s\n",
		args->raw ? "by plain verbs" : "by mrguard", result->mrs,
		result->mrs == 1 ? "" : "s");
	print_prediction(term, result);
	if (!args->raw && result->words[0])
		term_wrap(term, 2, result->words);
	fprintf(term->out, "  looked at  %" PRIu64 " places, %s, %s\n", result->places,
		term_size(result->compared).text,
		result->cpu_truth ? "through the CPU's mapping" : "through small MRs of their own");
	for (size_t i = 0; i < result->group_count; i++)
		print_group(term, &result->groups[i]);
	if (result->left_out)
		fprintf(term->out, "  ... and %" PRIu64 " places of further kinds\n",
			result->left_out);
	fprintf(term->out, "  result     ");
	if (clean)
		term_print(term, TERM_GOOD, "clean: every byte is where it should be\n");
	else
		term_print(term, TERM_BAD,
			   "WRONG: %" PRIu64 " bytes, and %" PRIu64
			   " overwritten, with no error from verbs\n",
			   result->wrong, result->overwritten);
	if (!clean)
		term_wrap(term, 2, selftest_hint(args, result));
}

static json_t *json_distance(const struct selftest_group *g)
{
	uint64_t size = g->distance < 0 ? -(uint64_t)g->distance : (uint64_t)g->distance;

	if (!g->distance)
		return json_null();
	return json_sprintf("%s0x%" PRIx64, g->distance < 0 ? "-" : "", size);
}

static json_t *json_group(const struct selftest_group *g)
{
	json_t *out = json_object();

	json_put(&out, "side", json_string(g->local ? "local" : "remote"));
	json_put(&out, "way", json_string(g->way == VERIFY_INTO ? "into" : "out of"));
	json_put(&out, "kind", json_string(kind_names[g->kind]));
	json_put(&out, "distance", json_distance(g));
	json_put(&out, "from", json_hex(g->from));
	json_put(&out, "to", json_hex(g->to));
	json_put(&out, "bytes", json_count(g->bytes));
	json_put(&out, "places", json_count(g->places));
	return out;
}

static json_t *json_groups(const struct selftest_result *result)
{
	json_t *list = json_array();

	for (size_t i = 0; i < result->group_count; i++)
		if (json_array_append_new(list, json_group(&result->groups[i]))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static json_t *json_prediction(const struct selftest_result *result)
{
	const struct mrg_outcome *p = &result->predicted;
	json_t *out;

	if (!result->has_prediction)
		return json_null();
	out = json_object();
	json_put(&out, "verdict", json_string(mrg_verdict_name(p->verdict)));
	json_put(&out, "first_bad_offset",
		 p->first_bad_offset == MRG_NO_OFFSET ? json_null() :
							json_hex(p->first_bad_offset));
	json_put(&out, "period", p->period ? json_hex(p->period) : json_null());
	return out;
}

int selftest_print_json(const struct selftest_args *args, const struct target *target,
			const struct selftest_result *result)
{
	json_t *out = json_object();

	json_put(&out, "schema", json_string("mrguard.selftest/1"));
	json_put(&out, "verdict",
		 json_string(result->wrong || result->overwritten ? "wrong" : "clean"));
	json_put(&out, "device", json_text(args->device));
	json_put(&out, "buffer", json_text(target->spec));
	json_put(&out, "size", json_hex(target->size));
	json_put(&out, "address", json_hex(target->addr));
	json_put(&out, "registration", json_string(args->raw ? "plain" : "mrguard"));
	json_put(&out, "mrs", json_count(result->mrs));
	json_put(&out, "strategy", json_string(mrg_strategy_name(result->strategy)));
	json_put(&out, "reason", json_text(result->words));
	json_put(&out, "predicted", json_prediction(result));
	json_put(&out, "truth", json_string(result->cpu_truth ? "cpu" : "small MRs"));
	json_put(&out, "places", json_count(result->places));
	json_put(&out, "compared", json_count(result->compared));
	json_put(&out, "wrong", json_count(result->wrong));
	json_put(&out, "overwritten", json_count(result->overwritten));
	json_put(&out, "faults", json_groups(result));
	json_put(&out, "hint", json_string(selftest_hint(args, result)));
	return json_print(out);
}
