/* SPDX-License-Identifier: MIT */
/*
 * Where to cut a range into MRs.
 *
 * A search from the left in order of cost: first cuts inside units, then
 * pieces.  It stays small, because a place is worth nothing
 *  - behind one of the same cost or less that has the same witness before it:
 *    any piece from the first that goes beyond the second could start there;
 *  - behind one of the same cost or less whose next witness comes before its
 *    window ends: that one reaches every place beyond, by window or by witness.
 * So only where witnesses are rarer than windows more than one place counts.
 */
#include <stdbool.h>
#include "model/cut.h"
#include "base/grow.h"

#define NONE UINT64_MAX

/* A place that can be reached: its last piece comes from @from. */
struct place {
	uint64_t pos;
	uint32_t from;
	uint32_t pieces;
};

struct queue {
	uint32_t *at;
	size_t head;
	size_t count;
	size_t room;
};

struct search {
	const struct model_cut_rule *rule;
	/* The places where units allow a cut: first, first + step, ... */
	uint64_t grid_first;
	uint64_t grid_step;
	struct place *places;
	size_t count;
	size_t room;
	struct queue now[2]; /* cuts inside units so far: found, and seeds */
	struct queue later; /* one more cut inside a unit */
	uint64_t *best; /* the farthest place so far before each witness */
	uint64_t rich; /* the farthest so far that reaches all beyond it */
};

static int enqueue(struct queue *q, uint32_t place)
{
	uint32_t *at = base_grow(q->at, &q->room, q->count, sizeof(*at));

	if (!at)
		return -ENOMEM;
	q->at = at;
	q->at[q->count++] = place;
	return 0;
}

/*
 * Multiples of the unit that are multiples of @align in iova: none, or an
 * arithmetic sequence.  x = unit * t, with unit * t = -iova modulo align.
 */
static void find_grid(struct search *s)
{
	const struct model_cut_rule *rule = s->rule;
	uint64_t unit = rule->unit ? rule->unit : 1;
	uint64_t common = unit & -unit & (rule->align - 1);
	uint64_t odd, inverse, rest, i;
	unsigned __int128 wide;

	if (!common)
		common = rule->align;
	s->grid_first = NONE;
	if (rule->iova & (common - 1))
		return;
	/* Newton: each round doubles the bits that are right, from 3 on. */
	odd = unit / common;
	inverse = odd;
	for (i = 0; i < 5; i++)
		inverse *= 2 - odd * inverse;
	rest = (-rule->iova / common * inverse) & (rule->align / common - 1);
	wide = (unsigned __int128)unit * rest;
	s->grid_first = wide < NONE ? (uint64_t)wide : NONE;
	wide = (unsigned __int128)odd * rule->align;
	s->grid_step = wide < NONE ? (uint64_t)wide : NONE;
}

/* The last place for a cut at or before @pos, or NONE; the end is always one. */
static uint64_t last_cut(const struct search *s, bool inside, uint64_t pos)
{
	const struct model_cut_rule *rule = s->rule;
	uint64_t over = (rule->iova + pos) & (rule->align - 1);

	if (pos >= rule->length)
		return rule->length;
	if (inside)
		return over <= pos ? pos - over : NONE;
	if (s->grid_first > pos)
		return NONE;
	return pos - (pos - s->grid_first) % s->grid_step;
}

/* The first witness that ends after @pos, or where a point, lies after it. */
static size_t first_after(const struct model_cut_rule *rule, uint64_t pos)
{
	size_t low = 0, high = rule->count, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (rule->witness[mid].hi > pos)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

static bool holds_witness(const struct model_cut_rule *rule, uint64_t start, uint64_t end)
{
	size_t i = first_after(rule, start);

	return i < rule->count && rule->witness[i].lo < end;
}

/* Bytes from @pos to the end of its window. */
static uint64_t window_left(const struct model_cut_rule *rule, uint64_t pos)
{
	return rule->window - ((rule->iova + pos) & (rule->window - 1));
}

/* Pieces from @pos on can end anywhere that their length allows. */
static bool reaches_all(const struct model_cut_rule *rule, uint64_t pos)
{
	size_t i = first_after(rule, pos);
	uint64_t next = i < rule->count ? rule->witness[i].lo : rule->length;

	return next <= pos || next - pos <= window_left(rule, pos);
}

/* The farthest end, at most @cap, of a piece that starts at @start. */
static uint64_t farthest(const struct search *s, bool inside, uint64_t start, uint64_t cap)
{
	const struct model_cut_rule *rule = s->rule;
	uint64_t room = window_left(rule, start), end;

	if (rule->max && rule->max < cap - start)
		cap = start + rule->max;
	end = last_cut(s, inside, cap);
	if (end == NONE || end <= start || holds_witness(rule, start, end))
		return end;
	return room < cap - start ? last_cut(s, inside, start + room) : end;
}

static bool of_use(const struct search *s, uint64_t pos)
{
	return pos > s->rich && pos > s->best[first_after(s->rule, pos)];
}

static void remember(struct search *s, uint64_t pos)
{
	s->best[first_after(s->rule, pos)] = pos;
	if (reaches_all(s->rule, pos))
		s->rich = pos;
}

static int new_place(struct search *s, uint64_t pos, uint32_t from, uint32_t pieces,
		     struct queue *queue)
{
	struct place *places;

	/* Few places are kept for a piece: more mean a plan beyond use. */
	if (s->count >= 4ULL * MODEL_MAX_PIECES)
		return -E2BIG;
	places = base_grow(s->places, &s->room, s->count, sizeof(*places));
	if (!places)
		return -ENOMEM;
	s->places = places;
	s->places[s->count] = (struct place){ pos, from, pieces };
	return enqueue(queue, s->count++);
}

static int add_place(struct search *s, uint32_t from, uint64_t pos, struct queue *queue)
{
	if (pos == NONE || pos <= s->places[from].pos || !of_use(s, pos))
		return 0;
	return new_place(s, pos, from, s->places[from].pieces + 1, queue);
}

/*
 * All pieces worth taking from a place on, with cuts of one kind: the longest,
 * and while that would lose a witness the longest before it.
 */
static int extend(struct search *s, uint32_t from, bool inside, struct queue *queue)
{
	uint64_t start = s->places[from].pos, cap = s->rule->length, end;
	size_t next;
	int err;

	for (;;) {
		end = farthest(s, inside, start, cap);
		err = add_place(s, from, end, queue);
		if (err || end == NONE || end <= start || reaches_all(s->rule, end))
			return err;
		next = first_after(s->rule, end);
		if (!next || s->rule->witness[next - 1].hi <= start + 1)
			return 0;
		cap = s->rule->witness[next - 1].hi - 1;
	}
}

static bool next_place(struct search *s, uint32_t *place)
{
	struct queue *a = &s->now[0], *b = &s->now[1];

	if (a->head == a->count && b->head == b->count)
		return false;
	if (a->head == a->count || (b->head < b->count && s->places[b->at[b->head]].pieces <
								  s->places[a->at[a->head]].pieces))
		a = b;
	*place = a->at[a->head++];
	return true;
}

/* Goes on with the places that cost one more cut inside a unit. */
static bool next_cost(struct search *s)
{
	struct queue used = s->now[1];

	if (!s->later.count)
		return false;
	s->now[0].head = s->now[0].count = 0;
	s->now[1] = s->later;
	used.head = used.count = 0;
	s->later = used;
	return true;
}

static long find_way(struct search *s, uint32_t *last, size_t *inside)
{
	uint32_t place;
	int err = 0;

	*inside = 0;
	do {
		while (!err && next_place(s, &place)) {
			if (s->places[place].pos == s->rule->length) {
				*last = place;
				return s->places[place].pieces;
			}
			if (place && !of_use(s, s->places[place].pos))
				continue;
			remember(s, s->places[place].pos);
			err = extend(s, place, false, &s->now[0]);
			if (!err && s->rule->unit)
				err = extend(s, place, true, &s->later);
		}
		++*inside;
	} while (!err && next_cost(s));
	return err ? err : -ERANGE;
}

static long write_ends(const struct search *s, uint32_t last, long count, uint64_t **ends)
{
	uint64_t *out;
	long i;

	if (count > MODEL_MAX_PIECES)
		return -E2BIG;
	out = malloc(count * sizeof(*out));
	if (!out)
		return -ENOMEM;
	*ends = out;
	for (i = count; i--; last = s->places[last].from)
		out[i] = s->places[last].pos;
	return count;
}

long model_cut(const struct model_cut_rule *rule, uint64_t **ends, size_t *inside)
{
	struct search s = { .rule = rule };
	uint32_t last = 0;
	long count;

	find_grid(&s);
	s.best = calloc(rule->count + 1, sizeof(*s.best));
	count = s.best ? new_place(&s, 0, 0, 0, &s.now[0]) : -ENOMEM;
	if (!count)
		count = find_way(&s, &last, inside);
	if (count > 0)
		count = write_ends(&s, last, count, ends);
	free(s.best);
	free(s.places);
	free(s.now[0].at);
	free(s.now[1].at);
	free(s.later.at);
	return count;
}
