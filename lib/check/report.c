/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/text.h"
#include "check/check.h"

static void put(char *to, size_t room, const char *from)
{
	snprintf(to, room, "%s", from);
	base_make_plain(to);
}

/* For a check that names none. */
static const char *remedy_for_unknown(const struct check_ctx *ctx)
{
	if (ctx->opts->root)
		return "Record the host again, as root and with this version: 'mrguard check --record DIR'.";
	return "Run as root on the host itself, outside of containers.";
}

static enum mrg_check_basis basis_of(const struct check_ctx *ctx, enum mrg_check_verdict verdict)
{
	if (verdict == MRG_CHECK_UNKNOWN)
		return MRG_BASIS_NONE;
	if (ctx->basis == MRG_BASIS_ASKED && ctx->opts->root)
		return MRG_BASIS_READ;
	if (ctx->basis == MRG_BASIS_NONE)
		return verdict == MRG_CHECK_SKIP ? MRG_BASIS_READ : MRG_BASIS_INFERRED;
	return ctx->basis;
}

static enum mrg_check_verdict may_say(const struct check_ctx *ctx, enum mrg_check_verdict verdict)
{
	return verdict == MRG_CHECK_OK && basis_of(ctx, verdict) == MRG_BASIS_INFERRED ?
		       MRG_CHECK_LIKELY :
		       verdict;
}

void check_add(struct check_ctx *ctx, enum mrg_check_verdict verdict, const char *subject,
	       const char *meaning, const char *remedy, const char *evidence, ...)
{
	struct mrg_check_report *report = ctx->report;
	struct mrg_check_result *more, *r;
	va_list args;

	more = base_grow(report->results, &report->room, report->count, sizeof(*more));
	if (!more) {
		report->out_of_memory = true;
		return;
	}
	report->results = more;
	r = &more[report->count++];
	*r = (struct mrg_check_result){ .id = ctx->id,
					.verdict = may_say(ctx, verdict),
					.basis = basis_of(ctx, verdict) };
	put(r->subject, sizeof(r->subject), subject);
	put(r->meaning, sizeof(r->meaning), meaning);
	if (verdict == MRG_CHECK_UNKNOWN && !*remedy)
		remedy = remedy_for_unknown(ctx);
	put(r->remedy, sizeof(r->remedy), remedy);
	va_start(args, evidence);
	vsnprintf(r->evidence, sizeof(r->evidence), evidence, args);
	va_end(args);
	base_make_plain(r->evidence);
}

char *check_buffer(struct check_ctx *ctx)
{
	char *text = malloc(HOST_TREE_MAX_FILE);

	ctx->lost |= !text;
	return text;
}

const char *check_why(int err)
{
	switch (err) {
	case -EACCES:
	case -EPERM:
		return "needs root";
	case -ENOENT:
	case -ENOTDIR:
		return "not there";
	case -EINVAL:
		return "not understood";
	case -ELOOP:
		return "links in a circle";
	case -EBADF:
		return "not a regular file";
	default:
		return strerror(err < 0 ? -err : err);
	}
}
