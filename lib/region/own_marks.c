/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/grow.h"
#include "region/fork_state.h"
#include "region/own_marks.h"

struct live {
	struct region_range range; /* first: the tree's key */
	unsigned int count;
	struct live *next; /* in the list of those left */
};

struct own_mark {
	struct region_range range;
	unsigned int users; /* registrations that overlap it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct own_mark *marks;
static size_t nmarks, marks_room;
static void *registered; /* tsearch() tree of struct live */
static struct live *left; /* still marked after deregistration */

static int by_range(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct region_range));
}

static struct live *find_live(struct region_range range)
{
	struct live **found = tfind(&range, &registered, by_range);

	return found ? *found : NULL;
}

static int add_live(struct region_range range)
{
	struct live *live = find_live(range);

	if (!live) {
		live = calloc(1, sizeof(*live));
		if (!live)
			return -ENOMEM;
		live->range = range;
		if (!tsearch(live, &registered, by_range)) {
			free(live);
			return -ENOMEM;
		}
	}
	live->count++;
	return 0;
}

static void drop_live(struct region_range range, bool still_marked)
{
	struct live *live = find_live(range);

	if (!live || --live->count)
		return;
	tdelete(live, &registered, by_range);
	if (still_marked) {
		live->next = left;
		left = live;
		return;
	}
	free(live);
}

static void mark(struct region_range range)
{
	if (region_range_empty(range))
		return;
	madvise((void *)(uintptr_t)range.start, range.end - range.start, MADV_DONTFORK);
}

static int add_mark(struct region_range range)
{
	struct own_mark *grown = base_grow(marks, &marks_room, nmarks, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	marks = grown;
	marks[nmarks++] = (struct own_mark){ .range = range };
	return 0;
}

/* The parts of @before that unmarking took the mark from: no MR covered them. */
static int add_lost(struct region_range before, const struct region_range_list *after)
{
	int ret = 0;

	for (size_t i = 0; i < after->count && !ret; i++) {
		struct region_range kept = region_range_overlap(before, after->ranges[i]);
		struct region_range lost = { before.start, kept.start };

		if (region_range_empty(kept))
			continue;
		if (!region_range_empty(lost))
			ret = add_mark(lost);
		before.start = kept.end;
	}
	if (!ret && !region_range_empty(before))
		ret = add_mark(before);
	return ret;
}

static int compare_marks(struct region_range range, const struct region_range_list *before)
{
	struct region_range_list after;
	bool clipped;
	int ret = region_range_marked(range, &after, &clipped);

	for (size_t i = 0; i < before->count && !ret; i++)
		ret = add_lost(before->ranges[i], &after);
	region_range_list_release(&after);
	return ret;
}

/*
 * Whose are the marks in a range?  libibverbs is asked to count each up and
 * down: what an MR covers stays as it is, what only the caller marked loses its
 * mark, and gets it back at once.
 */
static int find_marks(struct region_range range)
{
	size_t known = nmarks;
	struct region_range_list before;
	bool clipped;
	int ret = region_range_marked(range, &before, &clipped);

	if (ret)
		return ret;
	if (clipped) {
		region_range_list_release(&before);
		return -EBUSY;
	}
	for (size_t i = 0; i < before.count; i++)
		region_fork_unmark(before.ranges[i].start, before.ranges[i].end);
	ret = compare_marks(range, &before);
	for (size_t i = known; i < nmarks; i++)
		mark(marks[i].range);
	/* What is not known may be the caller's: better marked than not. */
	for (size_t i = 0; ret && i < before.count; i++)
		mark(before.ranges[i]);
	region_range_list_release(&before);
	return ret;
}

/*
 * Another library can register the same range through plain verbs.  libibverbs'
 * counts distinguish its marks from the caller's own marks.  For one range on many
 * devices the list of registered ranges is enough, and cheap.
 */
static int enter(struct region_range range, bool dontcopy)
{
	int ret = 0;

	if (dontcopy && !find_live(range))
		ret = find_marks(range);
	if (!ret)
		ret = add_live(range);
	for (size_t i = 0; i < nmarks; i++)
		if (!region_range_empty(region_range_overlap(marks[i].range, range)))
			marks[i].users += !ret;
	return ret;
}

/* Marks of nobody's: those found for a range whose registration was refused. */
static void drop_unused(void)
{
	size_t kept = 0;

	for (size_t i = 0; i < nmarks; i++)
		if (marks[i].users)
			marks[kept++] = marks[i];
	nmarks = kept;
}

int region_own_marks_enter(struct region_range range, bool dontcopy)
{
	int ret;

	pthread_mutex_lock(&lock);
	ret = enter(range, dontcopy);
	drop_unused();
	pthread_mutex_unlock(&lock);
	return ret;
}

void region_own_marks_leave(struct region_range range, bool still_marked)
{
	pthread_mutex_lock(&lock);
	drop_live(range, still_marked);
	for (size_t i = 0; i < nmarks; i++) {
		struct region_range part = region_range_overlap(marks[i].range, range);

		if (region_range_empty(part))
			continue;
		mark(part);
		marks[i].users--;
	}
	drop_unused();
	pthread_mutex_unlock(&lock);
}

void region_own_marks_retry(void)
{
	pthread_mutex_lock(&lock);
	while (left) {
		struct live *live = left;

		left = live->next;
		region_fork_unmark(live->range.start, live->range.end);
		for (size_t i = 0; i < nmarks; i++)
			mark(region_range_overlap(marks[i].range, live->range));
		free(live);
	}
	pthread_mutex_unlock(&lock);
}
