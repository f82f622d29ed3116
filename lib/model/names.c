/* SPDX-License-Identifier: MIT */
#include <mrguard/plan.h>

#define NAME(names, i) ((size_t)(i) < sizeof(names) / sizeof((names)[0]) ? (names)[i] : "invalid")

const char *mrg_verdict_name(enum mrg_verdict verdict)
{
	static const char *const names[] = {
		[MRG_SAFE] = "safe",
		[MRG_WRAPS] = "wraps",
		[MRG_HANGS] = "hangs",
		[MRG_REFUSED] = "refused",
		[MRG_VERDICT_UNKNOWN] = "unknown",
	};

	return NAME(names, verdict);
}

const char *mrg_strategy_name(enum mrg_strategy strategy)
{
	static const char *const names[] = {
		[MRG_STRATEGY_AUTO] = "auto",
		[MRG_STRATEGY_SPLIT] = "split",
		[MRG_STRATEGY_REBASE] = "rebase",
		[MRG_STRATEGY_NONE] = "none",
	};

	return NAME(names, strategy);
}

const char *mrg_walk_name(enum mrg_walk walk)
{
	static const char *const names[] = {
		[MRG_WALK_UNKNOWN] = "unknown",
		[MRG_WALK_EXACT] = "exact",
		[MRG_WALK_TRUNCATING] = "truncating",
		[MRG_WALK_TRUNCATING_UNBOUNDED] = "truncating-unbounded",
		[MRG_WALK_PER_ENTRY] = "per-entry",
		[MRG_WALK_PER_ENTRY_NARROW] = "per-entry-narrow",
	};

	return NAME(names, walk);
}
