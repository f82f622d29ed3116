/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "tools/pattern.h"
#include "tools/verify.h"

#define MAX_PIECES 64 /* MRs that one part of a span can touch */

/* Spans so few that the places which a wide page would confuse with them are
 * tagged too; of many scattered ones, each is such a place for others. */
#define FEW_SPANS 64
#define FIRST_IMAGE 31

/* Lost bytes are looked for at these powers of two from where they should be. */
#define FIRST_DISTANCE 12
#define LAST_DISTANCE 47

static int add_fault(struct verify *v, const struct verify_fault *fault)
{
	struct verify_fault *more =
		base_grow(v->faults, &v->fault_room, v->fault_count, sizeof(*more));

	if (!more)
		return -ENOMEM;
	v->faults = more;
	v->faults[v->fault_count++] = *fault;
	return 0;
}

void verify_release(struct verify *v)
{
	free(v->faults);
	v->faults = NULL;
	v->fault_count = v->fault_room = 0;
}

/* What pattern_check() tells about one span. */
struct check {
	struct verify *v;
	enum verify_kind placed_kind; /* of bytes that belong elsewhere */
	int err;
};

static void note(void *arg, const struct pattern_fault *f)
{
	struct check *check = arg;
	struct verify_fault fault = {
		.way = check->v->way, .kind = VERIFY_NOISE, .offset = f->offset, .length = f->length
	};
	int err;

	if (f->placed) {
		fault.kind = check->placed_kind;
		fault.distance = (int64_t)(f->origin - f->offset);
		/* Its own bytes, of the round before. */
		if (!fault.distance)
			fault.kind = VERIFY_LOST;
	}
	err = add_fault(check->v, &fault);
	if (err)
		check->err = err;
}

static unsigned int next_round(struct verify *v)
{
	v->round = (v->round + 1) % PATTERN_ROUNDS;
	return v->round;
}

/* Tags a span through the truth. */
static int tag(struct verify *v, const struct verify_span *span, unsigned int round,
	       unsigned char *buf)
{
	pattern_fill(buf, span->offset, span->length, round);
	return v->truth->write(v->truth->arg, span->offset, buf, span->length);
}

static int move_part(struct verify *v, uint64_t offset, uint64_t length)
{
	struct mrg_seg tested[MAX_PIECES];
	struct mrg_seg other = v->bounce;
	struct mrg_seg_pair pairs[MAX_PIECES];
	bool into = v->way == VERIFY_INTO;
	ssize_t n = v->keys(v->keys_arg, offset, length, tested, MAX_PIECES);

	if (n < 0 || n > MAX_PIECES)
		return n < 0 ? (int)n : -E2BIG;
	other.length = length;
	if (v->tested_is_local)
		n = mrg_seg_pairs(tested, (size_t)n, &other, 1, pairs, MAX_PIECES);
	else
		n = mrg_seg_pairs(&other, 1, tested, (size_t)n, pairs, MAX_PIECES);
	if (n < 0)
		return (int)n;
	return rc_transfer(v->end,
			   into == v->tested_is_local ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, pairs,
			   (size_t)n);
}

/*
 * Carries a span over, by way of the bounce buffer; @buf holds the bytes to
 * send, or gets those received.
 */
static int move(struct verify *v, const struct verify_span *span, unsigned char *buf)
{
	uint64_t part;
	int ret = 0;

	for (uint64_t done = 0; done < span->length && !ret; done += part) {
		part = span->length - done;
		if (part > v->bounce.length)
			part = v->bounce.length;
		if (v->way == VERIFY_INTO)
			memcpy(v->bounce_mem, buf + done, part);
		else
			memset(v->bounce_mem, 0x5a, part);
		ret = move_part(v, span->offset + done, part);
		if (!ret && v->way == VERIFY_OUT_OF)
			memcpy(buf + done, v->bounce_mem, part);
	}
	return ret;
}

static void report(struct verify *v, const struct verify_span *span, size_t before)
{
	if (v->span_done)
		v->span_done(v->span_done_arg, span, v->faults + before, v->fault_count - before);
}

static bool lies_at(struct verify *v, uint64_t offset, unsigned int round, uint64_t place)
{
	uint64_t right, found;

	pattern_fill(&right, offset, sizeof(right), round);
	return place <= v->size - sizeof(found) &&
	       !v->truth->read(v->truth->arg, place, &found, sizeof(found)) && found == right;
}

/* Where did bytes go that did not arrive? */
static void look_for(struct verify *v, struct verify_fault *fault, unsigned int round)
{
	uint64_t from = (fault->offset + 7) & ~7ULL;

	fault->distance = 0;
	if (from + 8 > fault->offset + fault->length)
		return;
	for (int k = FIRST_DISTANCE; k <= LAST_DISTANCE; k++) {
		uint64_t step = 1ULL << k;

		if (step <= from && lies_at(v, from, round, from - step))
			fault->distance = -(int64_t)step;
		else if (from + step < v->size && lies_at(v, from, round, from + step))
			fault->distance = (int64_t)step;
		if (fault->distance) {
			fault->kind = VERIFY_MOVED;
			return;
		}
	}
}

static int check_span(struct verify *v, const struct verify_span *span, unsigned int round,
		      enum verify_kind placed_kind, const unsigned char *found, uint64_t *wrong)
{
	struct check check = { .v = v, .placed_kind = placed_kind };
	size_t before = v->fault_count;

	v->compared += span->length;
	*wrong += pattern_check(found, span->offset, span->length, round, v->size, note, &check);
	for (size_t i = before; i < v->fault_count && v->way == VERIFY_INTO; i++)
		if (v->faults[i].kind == VERIFY_LOST)
			look_for(v, &v->faults[i], round);
	return check.err;
}

static int into_one(struct verify *v, const struct verify_span *span, unsigned int round,
		    unsigned char *buf)
{
	int ret;

	pattern_fill(buf, span->offset, span->length, round);
	ret = move(v, span, buf);
	if (!ret)
		ret = v->truth->read(v->truth->arg, span->offset, buf, span->length);
	return ret ? ret : check_span(v, span, round, VERIFY_LOST, buf, &v->bad);
}

/* Spans that were right when they were written, and are not any more. */
static int look_again(struct verify *v, const struct verify_span *spans, size_t count,
		      const bool *arrived, unsigned int round, unsigned char *buf)
{
	int ret = 0;

	for (size_t i = 0; i < count && !ret; i++) {
		if (!arrived[i])
			continue;
		ret = v->truth->read(v->truth->arg, spans[i].offset, buf, spans[i].length);
		if (!ret)
			ret = check_span(v, &spans[i], round, VERIFY_OVERWRITTEN, buf,
					 &v->overwritten);
	}
	return ret;
}

static int run_into(struct verify *v, const struct verify_span *spans, size_t count,
		    unsigned char *buf)
{
	bool *arrived = calloc(count, sizeof(*arrived));
	unsigned int before = next_round(v), round = next_round(v);
	int ret = arrived ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && !ret; i++)
		ret = tag(v, &spans[i], before, buf);
	for (size_t i = 0; i < count && !ret; i++) {
		size_t faults = v->fault_count;

		ret = into_one(v, &spans[i], round, buf);
		arrived[i] = v->fault_count == faults;
		report(v, &spans[i], faults);
	}
	if (!ret)
		ret = look_again(v, spans, count, arrived, round, buf);
	free(arrived);
	return ret;
}

/* Tags what of [@from, @from + @length) is in the buffer. */
static int tag_part(struct verify *v, int64_t from, uint64_t length, unsigned int round,
		    unsigned char *buf)
{
	int64_t end = from + (int64_t)length;
	struct verify_span span = { .offset = from < 0 ? 0 : (uint64_t)from };

	if (end > (int64_t)v->size)
		end = (int64_t)v->size;
	if (end <= (int64_t)span.offset)
		return 0;
	span.length = (uint64_t)end - span.offset;
	return tag(v, &span, round, buf);
}

static int tag_images(struct verify *v, const struct verify_span *span, unsigned int round,
		      unsigned char *buf)
{
	int64_t at = (int64_t)span->offset;
	int ret = 0;

	for (int k = FIRST_IMAGE; k <= LAST_DISTANCE && !ret; k++) {
		ret = tag_part(v, at - (1LL << k), span->length, round, buf);
		if (!ret)
			ret = tag_part(v, at + (1LL << k), span->length, round, buf);
	}
	return ret;
}

static int run_out_of(struct verify *v, const struct verify_span *spans, size_t count,
		      unsigned char *buf)
{
	unsigned int round = next_round(v);
	int ret = 0;

	for (size_t i = 0; i < count && !ret && count <= FEW_SPANS; i++)
		ret = tag_images(v, &spans[i], round, buf);
	for (size_t i = 0; i < count && !ret; i++)
		ret = tag(v, &spans[i], round, buf);
	for (size_t i = 0; i < count && !ret; i++) {
		size_t faults = v->fault_count;

		ret = move(v, &spans[i], buf);
		if (!ret)
			ret = check_span(v, &spans[i], round, VERIFY_MOVED, buf, &v->bad);
		report(v, &spans[i], faults);
	}
	return ret;
}

int verify_run(struct verify *v, enum verify_way way, const struct verify_span *spans, size_t count)
{
	uint64_t longest = 0;
	unsigned char *buf;
	int ret;

	for (size_t i = 0; i < count; i++)
		if (spans[i].length > longest)
			longest = spans[i].length;
	buf = malloc(longest ? longest : 1);
	if (!buf)
		return -ENOMEM;
	v->way = way;
	ret = way == VERIFY_INTO ? run_into(v, spans, count, buf) :
				   run_out_of(v, spans, count, buf);
	free(buf);
	return ret;
}
