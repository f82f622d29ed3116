/* SPDX-License-Identifier: MIT */
/* What `mrguard bench' measures, and how it is shown. */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/fabric.h"

#define BENCH_SIZES 32

enum bench_op { BENCH_READ, BENCH_WRITE, BENCH_BOTH };

struct bench_args {
	struct fabric_args fabric;
	const char *peer;
	enum bench_op ops[3];
	unsigned int op_count;
	uint64_t sizes[BENCH_SIZES];
	unsigned int size_count;
	uint32_t batch; /* operations of a request */
	uint32_t flight; /* requests at a time */
	uint32_t threads;
	double seconds; /* of each measurement */
	enum bench_only { BENCH_ALL, BENCH_BANDWIDTH, BENCH_LATENCY } only;
	bool check, events, pong;
	struct output_args output;
	const char *plot;
};

/* One operation, one size.  Times in microseconds, of one operation alone. */
struct bench_row {
	enum bench_op op;
	uint64_t size;
	double mib_s, ops_s;
	uint64_t samples;
	double min, p50, p90, p99, p999, max;
	uint64_t checked, wrong; /* bytes */
};

const char *bench_op_name(enum bench_op op);

/** bench_text() - a table; with row NULL its head */
void bench_text(const struct bench_args *args, const struct bench_row *row);
int bench_json(const struct bench_args *args, const struct bench_row *rows, unsigned int count,
	       const struct mrg_ep_stats *stats);
/** bench_plot() - by gnuplot, to @args->plot; 0 or -errno with @error */
int bench_plot(const struct bench_args *args, const struct bench_row *rows, unsigned int count,
	       struct mrg_error *error);

#endif
