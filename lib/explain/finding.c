/* SPDX-License-Identifier: MIT */
/* How a cause reports its finding. */
#include <stdarg.h>
#include <stdio.h>

#include "explain/explain.h"

struct explain_size explain_size(uint64_t bytes)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	unsigned int unit = 0;
	double value = (double)bytes;
	struct explain_size out;

	for (; value >= 1024 && unit < 6; unit++)
		value /= 1024;
	snprintf(out.text, sizeof(out.text), "%.*f %s", value == (double)(uint64_t)value ? 0 : 1,
		 value, units[unit]);
	return out;
}

void explain_say(struct mrg_finding *finding, enum mrg_likelihood likelihood, const char *remedy,
		 const char *format, ...)
{
	va_list args;

	finding->likelihood = likelihood;
	va_start(args, format);
	vsnprintf(finding->text, sizeof(finding->text), format, args);
	va_end(args);
	snprintf(finding->remedy, sizeof(finding->remedy), "%s",
		 likelihood == MRG_IS_NOT ? "" : remedy);
}

const char *explain_no_range(const struct explain_evidence *evidence)
{
	return evidence->opts.addr && evidence->opts.length ? "The process's maps cannot be read." :
							      "The range is not given.";
}
