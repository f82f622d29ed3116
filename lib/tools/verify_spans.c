/* SPDX-License-Identifier: MIT */
/* Where a buffer is looked at. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/verify.h"

#define ROW (1ULL << 31) /* the smallest distance that a wide page wraps at */

/* Knuth's generator: the same places each time, so that a report can be
 * compared with the one before. */
static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 20;
}

/* One block in each of @columns parts of the first 2 GiB, and its likes in
 * every further 2 GiB. */
static void scatter(struct verify_spans *spans, uint64_t size, size_t columns, uint64_t block)
{
	uint64_t width = (size < ROW ? size : ROW) / columns, state = 1;

	for (size_t c = 0; c < columns; c++) {
		uint64_t jitter = next_random(&state) % (width - block + 1) & ~7ULL;

		for (uint64_t at = c * width + jitter; at + block <= size; at += ROW)
			spans->blocks[spans->count++] = (struct verify_span){ at, block };
	}
}

static int make_blocks(struct verify_spans *spans, uint64_t size, size_t count, uint64_t block)
{
	uint64_t rows = (size + ROW - 1) / ROW;
	uint64_t fit = (size < ROW ? size : ROW) / block;
	size_t columns = (size_t)((count + rows - 1) / rows);

	if (columns > fit)
		columns = (size_t)fit;
	if (!columns)
		return 0;
	spans->blocks = calloc(columns * rows, sizeof(*spans->blocks));
	if (!spans->blocks)
		return -ENOMEM;
	scatter(spans, size, columns, block);
	return 0;
}

static int make_lines(struct verify_spans *spans, uint64_t size, uint64_t iova, uint64_t block)
{
	uint64_t line = (iova + ROW - 1) / ROW * ROW - iova;

	spans->lines = calloc((size_t)(size / ROW + 2), sizeof(*spans->lines));
	if (!spans->lines)
		return -ENOMEM;
	for (; line < size; line += ROW) {
		uint64_t before = block / 2 + 3;

		if (line >= before && line - before + block <= size)
			spans->lines[spans->line_count++] =
				(struct verify_span){ line - before, block };
	}
	return 0;
}

int verify_spans_make(struct verify_spans *spans, uint64_t size, uint64_t iova, size_t count,
		      uint64_t block)
{
	const uint64_t tails[] = { 1, 7, 4096, block - 1, block, (1 << 20) + 3 };
	int ret;

	memset(spans, 0, sizeof(*spans));
	ret = make_blocks(spans, size, count, block);
	if (!ret)
		ret = make_lines(spans, size, iova, block);
	if (ret) {
		verify_spans_free(spans);
		return ret;
	}
	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++)
		if (tails[i] && tails[i] <= size)
			spans->tails[spans->tail_count++] =
				(struct verify_span){ size - tails[i], tails[i] };
	return 0;
}

void verify_spans_free(struct verify_spans *spans)
{
	free(spans->blocks);
	free(spans->lines);
	memset(spans, 0, sizeof(*spans));
}

size_t verify_spans_count(const struct verify_spans *spans)
{
	return spans->count + spans->line_count + spans->tail_count;
}

int verify_spans_run(struct verify *v, enum verify_way way, const struct verify_spans *spans)
{
	int ret = verify_run(v, way, spans->blocks, spans->count);

	if (!ret)
		ret = verify_run(v, way, spans->lines, spans->line_count);
	/* They overlap: one at a time. */
	for (size_t i = 0; i < spans->tail_count && !ret; i++)
		ret = verify_run(v, way, &spans->tails[i], 1);
	return ret;
}
