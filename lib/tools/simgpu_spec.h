/* SPDX-License-Identifier: MIT */
/*
 * The text form of a simgpu DMA-BUF, for commands and tests:
 *
 *	SPEC	EXTENT[+EXTENT]...[,OPTION]...
 *	EXTENT	SIZE[@ADDRESS]	no address: right behind the extent before;
 *				the first then starts at 0x100000000
 *	OPTION	seg=SIZE	largest scatter-list entry (default: what the
 *				importer takes)
 *		fake		invented addresses, no memory behind them
 *		whole		an extent is mapped at once and then cut
 *		down		the segments of each extent in reverse order
 *		shuffle=SEED	all segments in random order, the same one
 *				each time for a SEED (needs seg=, as down)
 *		fail=ERRNO[:N]	maps fail after N (default 0) good ones
 *		failattach	fail= tells of attach, not of map
 *		delay=MS	each map takes so much longer
 *
 * Sizes and addresses are C numbers with K, M, G or T behind them if wanted.
 *
 *	12G				12 GiB at 4 GiB
 *	12G@0x100000000,seg=2G		the same in entries of 2 GiB
 *	4G@8G+4G@4G,seg=1G		two halves, swapped
 *	8G@64G,seg=0xfffff000,fake	as other exporters cut it
 *
 * All functions return 0 or a negative errno; -EINVAL is a spec that does not
 * follow the above.
 */
#ifndef TOOLS_SIMGPU_SPEC_H
#define TOOLS_SIMGPU_SPEC_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/simgpu.h"

struct simgpu_spec {
	struct simgpu_create create;
	struct simgpu_extent *list;
};

static inline void simgpu_spec_free(struct simgpu_spec *spec)
{
	free(spec->list);
	spec->list = NULL;
}

/* A number with its unit; moves *p behind it. */
static inline int simgpu_spec_number(const char **p, uint64_t *out)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;

	if (**p < '0' || **p > '9')
		return -EINVAL;
	errno = 0;
	*out = strtoull(*p, &end, 0);
	if (errno)
		return -EINVAL;
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		int shift = 10 * (int)(unit - units + 1);

		if (*out << shift >> shift != *out)
			return -EINVAL;
		*out <<= shift;
		end++;
	}
	*p = end;
	return 0;
}

static inline int simgpu_spec_add(struct simgpu_spec *spec, uint64_t addr, uint64_t len)
{
	uint32_t n = spec->create.extents_n;

	if (!len || n == SIMGPU_MAX_EXTENTS)
		return -EINVAL;
	if (!(n & (n - 1))) {
		struct simgpu_extent *bigger =
			realloc(spec->list, (n ? 2 * n : 1) * sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		spec->list = bigger;
	}
	spec->list[n].addr = addr;
	spec->list[n].len = len;
	spec->create.extents_n = n + 1;
	return 0;
}

static inline int simgpu_spec_extents(struct simgpu_spec *spec, const char **p)
{
	uint64_t len, addr, next = 4ULL << 30;
	int ret;

	for (;; (*p)++) {
		ret = simgpu_spec_number(p, &len);
		addr = next;
		if (!ret && **p == '@') {
			(*p)++;
			ret = simgpu_spec_number(p, &addr);
		}
		if (!ret)
			ret = simgpu_spec_add(spec, addr, len);
		if (ret || **p != '+')
			return ret;
		next = addr + len;
	}
}

struct simgpu_spec_order {
	int down;
	int shuffle;
	uint64_t seed;
};

/* The option's name if *p starts with it and it ends there; moves *p. */
static inline int simgpu_spec_word(const char **p, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*p, word, n) || (word[n - 1] != '=' && (*p)[n] && (*p)[n] != ','))
		return 0;
	*p += n;
	return 1;
}

static inline int simgpu_spec_option(struct simgpu_spec *spec, struct simgpu_spec_order *order,
				     const char **p)
{
	struct simgpu_create *c = &spec->create;
	uint64_t n = 0, after = 0;
	int ret = 0;

	if (simgpu_spec_word(p, "fake")) {
		c->flags |= SIMGPU_FAKE;
	} else if (simgpu_spec_word(p, "whole")) {
		c->flags |= SIMGPU_WHOLE;
	} else if (simgpu_spec_word(p, "failattach")) {
		c->flags |= SIMGPU_FAIL_ATTACH;
	} else if (simgpu_spec_word(p, "down")) {
		order->down = 1;
	} else if (simgpu_spec_word(p, "shuffle=")) {
		order->shuffle = 1;
		ret = simgpu_spec_number(p, &order->seed);
	} else if (simgpu_spec_word(p, "seg=")) {
		ret = simgpu_spec_number(p, &n);
		c->seg = n;
	} else if (simgpu_spec_word(p, "delay=")) {
		ret = simgpu_spec_number(p, &n);
		c->delay_ms = (uint32_t)n;
	} else if (simgpu_spec_word(p, "fail=")) {
		ret = simgpu_spec_number(p, &n);
		if (!ret && **p == ':') {
			(*p)++;
			ret = simgpu_spec_number(p, &after);
		}
		c->fail_errno = (uint32_t)n;
		c->fail_after = (uint32_t)after;
	} else {
		return -EINVAL;
	}
	return n > UINT32_MAX || after > UINT32_MAX ? -EINVAL : ret;
}

/* Each segment becomes an extent of its own, so that a test sees the order. */
static inline int simgpu_spec_cut(struct simgpu_spec *spec, int down)
{
	struct simgpu_spec cut = { .create = spec->create };
	uint64_t seg = spec->create.seg, pos, len, n, k;
	uint32_t i;
	int ret = seg ? 0 : -EINVAL;

	cut.create.extents_n = 0;
	for (i = 0; !ret && i < spec->create.extents_n; i++) {
		n = (spec->list[i].len + seg - 1) / seg;
		for (k = 0; !ret && k < n; k++) {
			pos = (down ? n - 1 - k : k) * seg;
			len = spec->list[i].len - pos < seg ? spec->list[i].len - pos : seg;
			ret = simgpu_spec_add(&cut, spec->list[i].addr + pos, len);
		}
	}
	if (ret) {
		simgpu_spec_free(&cut);
		return ret;
	}
	free(spec->list);
	*spec = cut;
	return 0;
}

static inline void simgpu_spec_shuffle(struct simgpu_spec *spec, uint64_t x)
{
	uint32_t i;

	for (i = spec->create.extents_n - 1; i; i--) {
		struct simgpu_extent t = spec->list[i];
		uint32_t j;

		/* Knuth's 64-bit linear generator; its high bits are the good ones. */
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		j = (uint32_t)(x >> 33) % (i + 1);
		spec->list[i] = spec->list[j];
		spec->list[j] = t;
	}
}

/* On success the caller frees @spec with simgpu_spec_free(). */
static inline int simgpu_spec_parse(const char *text, struct simgpu_spec *spec)
{
	struct simgpu_spec_order order = { 0, 0, 0 };
	const char *p = text;
	int ret;

	memset(spec, 0, sizeof(*spec));
	spec->create.size = sizeof(spec->create);
	ret = simgpu_spec_extents(spec, &p);
	while (!ret && *p == ',') {
		p++;
		ret = simgpu_spec_option(spec, &order, &p);
	}
	if (!ret && *p)
		ret = -EINVAL;
	if (!ret && (order.down || order.shuffle))
		ret = simgpu_spec_cut(spec, order.down);
	if (ret) {
		simgpu_spec_free(spec);
		return ret;
	}
	if (order.shuffle)
		simgpu_spec_shuffle(spec, order.seed);
	spec->create.extents = (uintptr_t)spec->list;
	return 0;
}

/* A DMA-BUF fd made from the text, or a negative errno. */
static inline int simgpu_spec_create(const char *text)
{
	struct simgpu_spec spec;
	int ret = simgpu_spec_parse(text, &spec), dev;

	if (ret)
		return ret;
	dev = open(SIMGPU_DEVICE, O_RDWR | O_CLOEXEC);
	ret = dev < 0 ? -1 : ioctl(dev, SIMGPU_IOC_CREATE, &spec.create);
	if (ret < 0)
		ret = -errno;
	if (dev >= 0)
		close(dev);
	simgpu_spec_free(&spec);
	return ret;
}

#endif
