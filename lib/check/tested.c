/* SPDX-License-Identifier: MIT */
/*
 * Whether mrguard's own tests run on this kernel; if not, the kernels like it
 * that they run on.  It says nothing of whether the host is affected.
 */
#include <string.h>

#include "check/check.h"

static const struct tested {
	const char *release, *arch;
	unsigned long page_kib;
	const char *iommu;
} tested[] = {
#define TESTED(...) { __VA_ARGS__ },
#include "check/tested.h"
};

#define COUNT (sizeof(tested) / sizeof(*tested))

static bool like(const struct check_host *h, const struct tested *t)
{
	return !strcmp(t->arch, h->arch) && t->page_kib * 1024 == h->page_size;
}

static const struct tested *find(const struct check_host *h)
{
	for (size_t i = 0; i < COUNT; i++)
		if (like(h, &tested[i]) && !strcmp(tested[i].release, h->release))
			return &tested[i];
	return NULL;
}

static void name_those_like_it(const struct check_host *h, char *text, size_t cap)
{
	size_t n = 0;

	text[0] = 0;
	for (size_t i = 0; i < COUNT && n < cap; i++)
		if (like(h, &tested[i]))
			n += (size_t)snprintf(text + n, cap - n, "%s%s", n ? ", " : "",
					      tested[i].release);
}

void check_tested(struct check_ctx *ctx)
{
	const struct check_host *h = &ctx->host;
	const struct tested *t = find(h);
	char meaning[256], others[160];

	if (!h->release[0] || !h->page_size) {
		check_add(ctx, MRG_CHECK_UNKNOWN, "", "", "", "kernel or page size not recorded");
		return;
	}
	name_those_like_it(h, others, sizeof(others));
	if (t)
		snprintf(meaning, sizeof(meaning),
			 "The project's tests run on this kernel; IOMMU: %s.", t->iommu);
	else
		snprintf(
			meaning, sizeof(meaning),
			"The project's tests do not run on this kernel; of its kind they run on: %s.",
			others[0] ? others : "none");
	check_add(ctx, t ? MRG_CHECK_OK : MRG_CHECK_SKIP, "", meaning, "",
		  "%s on %s, %lu KiB pages", h->release, h->arch, h->page_size / 1024);
}
