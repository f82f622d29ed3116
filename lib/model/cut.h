/* SPDX-License-Identifier: MIT */
/* Where to cut a range into MRs. */
#ifndef MODEL_CUT_H
#define MODEL_CUT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Something in the list that keeps the page of any MR that holds it at 2 GiB
 * or below.  An MR [s, e) holds it if s < hi and lo < e; a discontinuity is a
 * point, lo == hi, and has to lie inside.  Positions count from the range's
 * start.
 */
struct model_witness {
	uint64_t lo;
	uint64_t hi;
};

/*
 * A piece may be at most @max bytes long (0 = any), and must hold a witness or
 * lie within one window of the iova.  Cuts fall on multiples of @align in iova;
 * those that are no multiples of @unit from the range's start are to be
 * avoided.  @window and @align are powers of two.
 */
struct model_cut_rule {
	uint64_t iova;
	uint64_t length;
	uint64_t window;
	uint64_t align;
	uint64_t unit;
	uint64_t max;
	const struct model_witness *witness; /* in order, apart */
	size_t count;
};

/* More MRs than any device has use for; keeps nonsense from eating memory. */
#define MODEL_MAX_PIECES (1u << 20)

/**
 * model_cut() - the fewest cuts inside units, and with these the fewest pieces
 * @ends: OUT where each piece ends; to be freed
 * @inside: OUT cuts that fall inside a unit
 *
 * Return: the number of pieces; -ERANGE (no such pieces exist), -E2BIG (more
 * than MODEL_MAX_PIECES), -ENOMEM.
 */
long model_cut(const struct model_cut_rule *rule, uint64_t **ends, size_t *inside);

#endif
