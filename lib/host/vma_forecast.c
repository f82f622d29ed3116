/* SPDX-License-Identifier: MIT */
/* Time to exhaustion: a straight line through the samples. */
#include <errno.h>

#include <mrguard/vma.h>

#define NS_PER_MINUTE 60e9

/* A slope below this many of its standard errors is taken for scatter. */
#define SIGNIFICANT 3.0

struct line {
	double slope; /* VMAs a minute */
	double slope_error2; /* square of its standard error */
};

static double minutes(const struct mrg_vma_sample *samples, size_t i)
{
	return (double)(samples[i].ns - samples[0].ns) / NS_PER_MINUTE;
}

static int fit(const struct mrg_vma_sample *samples, size_t count, struct line *line)
{
	double mean_t = 0, mean_c = 0, tt = 0, tc = 0, cc = 0;

	for (size_t i = 0; i < count; i++) {
		mean_t += minutes(samples, i) / (double)count;
		mean_c += (double)samples[i].count / (double)count;
	}
	for (size_t i = 0; i < count; i++) {
		double t = minutes(samples, i) - mean_t;
		double c = (double)samples[i].count - mean_c;

		tt += t * t;
		tc += t * c;
		cc += c * c;
	}
	if (count < 2 || tt <= 0)
		return -ENODATA;
	line->slope = tc / tt;
	line->slope_error2 = count > 2 ? (cc - tc * tc / tt) / tt / (double)(count - 2) : 0;
	return 0;
}

int mrg_vma_forecast(const struct mrg_vma_sample *samples, size_t count, uint64_t limit,
		     struct mrg_vma_forecast *out)
{
	struct line line;
	uint64_t last;
	int ret;

	for (size_t i = 0; i < count; i++)
		if (samples[i].reserved[0] || samples[i].reserved[1])
			return -EINVAL;
	ret = fit(samples, count, &line);

	if (ret)
		return ret;
	last = samples[count - 1].count;
	*out = (struct mrg_vma_forecast){
		.per_minute = line.slope,
		.rising = line.slope > 0 &&
			  line.slope * line.slope > SIGNIFICANT * SIGNIFICANT * line.slope_error2,
	};
	if (last >= limit)
		out->seconds_left = 0;
	else if (!out->rising)
		out->seconds_left = -1;
	else
		out->seconds_left = (double)(limit - last) / line.slope * 60;
	return 0;
}
