/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "region/headroom.h"

#define NS_PER_S 1000000000ULL

/* An administrator's change of the limit is seen after this, or at once where
 * it decides about a refusal. */
#define LIMIT_AGE NS_PER_S

/* Counting lines may take at most one part in this of the time. */
#define COUNT_SHARE 100
#define COUNT_AGE_MIN (NS_PER_S / 10)

/* A count of the module's holds until the next tick of the coarse clock, a few
 * milliseconds, but only with so many VMAs left that no program can use them up
 * in that time (an mmap takes a microsecond). */
#define MODULE_PLENTY 16384

/* One part of what is left may be used up before it is counted again. */
#define COUNT_CHARGE_SHARE 8

/* The coarse clock is a read of memory: before each registration no more. */
static uint64_t now_ns(void)
{
	return base_now_ns(CLOCK_MONOTONIC_COARSE);
}

void region_headroom_init(struct region_headroom *room, struct mrg_dev *dev, uint64_t floor)
{
	*room = (struct region_headroom){ .dev = dev, .floor = floor, .sample_gap = NS_PER_S };
	pthread_mutex_init(&room->lock, NULL);
}

void region_headroom_release(struct region_headroom *room)
{
	pthread_mutex_destroy(&room->lock);
}

static void refresh_limit(struct region_headroom *room, uint64_t now)
{
	uint64_t limit;

	if (now < room->limit_due)
		return;
	room->limit = mrg_vma_limit(&limit) ? UINT64_MAX : limit;
	room->limit_due = now + LIMIT_AGE;
}

/* Full: every second one goes, and the next come half as often, so that the
 * samples reach back to the start. */
static void thin_samples(struct region_headroom *room)
{
	size_t half = room->nsamples / 2;

	for (size_t i = 0; i < half; i++)
		room->samples[i] = room->samples[2 * i];
	room->nsamples = half;
	room->sample_gap *= 2;
}

static void take_sample(struct region_headroom *room, uint64_t now, uint64_t count)
{
	size_t n = room->nsamples;

	if (n && now - room->samples[n - 1].ns < room->sample_gap)
		return;
	if (n == HEADROOM_SAMPLES) {
		thin_samples(room);
		n = room->nsamples;
	}
	room->samples[n] = (struct mrg_vma_sample){ .ns = now, .count = count };
	room->nsamples = n + 1;
}

/* Is the last count, with what registrations may have added, still good? */
static bool still_good(const struct region_headroom *room, uint64_t now)
{
	uint64_t left = room->limit - room->count;

	if (now >= room->count_due || room->count > room->limit)
		return false;
	return room->charge * COUNT_CHARGE_SHARE <= left && (!room->dev || left >= MODULE_PLENTY);
}

static int count_again(struct region_headroom *room, uint64_t now)
{
	uint64_t start, took, count;
	int ret;

	start = room->dev ? 0 : base_now_ns(CLOCK_MONOTONIC);
	ret = mrg_vma_count(room->dev, 0, &count);
	if (ret)
		return ret;
	took = room->dev ? 0 : base_now_ns(CLOCK_MONOTONIC) - start;
	room->count = count;
	room->charge = 0;
	room->count_due = room->dev ? now + 1 : now + COUNT_AGE_MIN + took * COUNT_SHARE;
	take_sample(room, now, count);
	return 0;
}

static int get_count(struct region_headroom *room, uint64_t now, bool exact, uint64_t *count)
{
	int ret = !exact && still_good(room, now) ? 0 : count_again(room, now);

	if (!ret)
		*count = room->count + room->charge;
	return ret;
}

static bool fits(const struct region_headroom *room, uint64_t count, uint64_t need)
{
	return room->limit >= need && count <= room->limit - need;
}

static void describe_rate(const struct region_headroom *room, char *text, size_t size)
{
	struct mrg_vma_forecast forecast;

	text[0] = '\0';
	if (!mrg_vma_forecast(room->samples, room->nsamples, room->limit, &forecast) &&
	    forecast.rising)
		snprintf(text, size, " They grew by %.0f a minute.", forecast.per_minute);
}

static int refuse(const struct region_headroom *room, uint64_t count, uint64_t need,
		  struct mrg_error *err)
{
	char rate[64], remedy[128];

	describe_rate(room, rate, sizeof(rate));
	snprintf(remedy, sizeof(remedy),
		 "See what holds them with `mrguard vma %d`; unmap it, or raise vm.max_map_count.",
		 (int)getpid());
	return base_error_set(err, -ENOSPC, "check VMAs", remedy,
			      "The process holds %" PRIu64 " of %" PRIu64
			      " VMAs (vm.max_map_count); a registration needs %" PRIu64
			      " and leaves %" PRIu64 " free.%s",
			      count, room->limit, need, room->floor, rate);
}

/* A refusal rests on figures of now, whatever they cost. */
static int check_exactly(struct region_headroom *room, uint64_t now, uint64_t need,
			 struct mrg_error *err)
{
	uint64_t count;

	room->limit_due = 0;
	refresh_limit(room, now);
	if (get_count(room, now, true, &count) || fits(room, count, need + room->floor))
		return 0;
	return refuse(room, count, need, err);
}

int region_headroom_check(struct region_headroom *room, uint64_t need, struct mrg_error *err)
{
	uint64_t now = now_ns(), count;
	int ret = 0;

	pthread_mutex_lock(&room->lock);
	refresh_limit(room, now);
	if (!get_count(room, now, false, &count)) {
		if (!fits(room, count, need + room->floor))
			ret = check_exactly(room, now, need, err);
		if (!ret)
			room->charge += need;
	}
	pthread_mutex_unlock(&room->lock);
	return ret;
}

bool region_headroom_tight(struct region_headroom *room, uint64_t need)
{
	uint64_t count;
	bool tight;

	pthread_mutex_lock(&room->lock);
	tight = !get_count(room, now_ns(), false, &count) && !fits(room, count, need);
	pthread_mutex_unlock(&room->lock);
	return tight;
}

int region_headroom_read(struct region_headroom *room, struct mrg_headroom *out)
{
	uint64_t now = now_ns(), count;
	int ret;

	pthread_mutex_lock(&room->lock);
	refresh_limit(room, now);
	ret = get_count(room, now, true, &count);
	if (!ret) {
		*out = (struct mrg_headroom){ .count = count,
					      .limit = room->limit,
					      .floor = room->floor,
					      .samples = room->nsamples };
		if (mrg_vma_forecast(room->samples, room->nsamples, room->limit, &out->forecast))
			out->samples = 0;
	}
	pthread_mutex_unlock(&room->lock);
	return ret;
}
