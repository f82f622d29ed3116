/* SPDX-License-Identifier: MIT */
/* What `mrguard vma' shows, and in which forms. */
#ifndef TOOLS_VMA_VIEW_H
#define TOOLS_VMA_VIEW_H

#include <mrguard/vma.h>

#include "tools/term.h"

/* Counts over time: the newest, thinned out so that they reach back far. */
#define VMA_TREND_MAX 512

struct vma_trend {
	struct mrg_vma_sample samples[VMA_TREND_MAX];
	size_t count;
};

void vma_trend_add(struct vma_trend *trend, uint64_t ns, uint64_t count);

/**
 * struct vma_output - what there is to show
 * @source: "process 4711 (python3)", or the files
 * @comm:   the process's name, "" for files
 * @trend:  counts over time; with fewer than two, no rate is printed
 */
struct vma_output {
	char source[128];
	char comm[32];
	const struct mrg_vma_report *report;
	const struct vma_trend *trend;
};

/** vma_forecast_of() - false if the rate is unknown */
bool vma_forecast_of(const struct vma_output *output, struct mrg_vma_forecast *forecast);

void vma_print(const struct term *term, const struct vma_output *output);
int vma_print_json(const struct vma_output *output);
void vma_print_prometheus(FILE *out, const struct vma_output *output);

/* A number as people read it, "65,530"; a time, "15 h 19 min"; a rate. */
struct vma_text {
	char text[64];
};
struct vma_text vma_number(uint64_t value);
struct vma_text vma_duration(double seconds);
struct vma_text vma_rate(double per_minute);

/** vma_bar() - @part of @whole as a bar of @width columns */
void vma_bar(const struct term *term, enum term_style style, double part, double whole,
	     unsigned int width);
enum term_style vma_style(enum mrg_vma_state state);

/** vma_watch() - show a running process until it ends, a key or a signal comes,
 *  or @samples (0 = no end) were taken.  Return: as a command does. */
struct vma_watch {
	struct mrg_vma_opts opts;
	double interval;
	uint64_t samples;
	const char *source;
	const char *comm;
	bool json;
	bool prometheus;
};
int vma_watch(const struct term *term, const struct vma_watch *watch);

#endif
