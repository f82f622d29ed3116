/* SPDX-License-Identifier: MIT */
/* The readers' side of the index. */
#include "registry/index_node.h"
#include "registry/registry.h"

static index_link root_of(struct registry_index *index)
{
	return atomic_load_explicit(&index->root, memory_order_acquire);
}

static bool found(const struct registry_index_query *query)
{
	return query->best.buffer != NULL;
}

static uint64_t span(const struct registry_index_range *range)
{
	return range->last - range->first;
}

static void note(struct registry_index_query *query, const struct registry_index_range *range)
{
	query->best.first = range->first;
	query->best.last = range->last;
	query->best.buffer = range->buffer;
}

static void forget(struct registry_index_query *query)
{
	query->best.buffer = NULL;
	query->other = false;
}

/* Shorter, then later start, then newer. */
static bool is_tighter(const struct registry_index_range *a, const struct registry_index_range *b)
{
	if (span(a) != span(b))
		return span(a) < span(b);
	if (a->first != b->first)
		return a->first > b->first;
	return a->buffer->generation > b->buffer->generation;
}

static bool has_entry(const struct registry_index_range *range, struct registry_index_query *query)
{
	uint64_t have = atomic_load_explicit(&range->have, memory_order_relaxed);

	if (have & query->need)
		return true;
	query->other |= have != INDEX_CLOSED;
	return false;
}

/* Ranges that start at @first or before and reach the query's last address are
 * at least this long: is something better known already? */
static bool cannot_be_tighter(const struct registry_index_query *query, uint64_t first)
{
	return found(query) && query->last - first > span(&query->best);
}

static void leaf_holding(const struct registry_index_node *leaf, unsigned int upto,
			 struct registry_index_query *query)
{
	while (upto-- > 0) {
		const struct registry_index_range *range = &leaf->ranges[upto];

		if (cannot_be_tighter(query, range->first))
			return;
		if (range->last >= query->last && has_entry(range, query) &&
		    (!found(query) || is_tighter(range, &query->best)))
			note(query, range);
	}
}

/* @low, @high: between them, the keys above say, the ranges below start. */
static void visit_holding(index_link link, uint64_t low, uint64_t high,
			  struct registry_index_query *query)
{
	const struct registry_index_node *node = registry_index_node_of(link);
	unsigned int count = registry_index_link_count(link), last;

	if (count) {
		last = registry_index_guess(count, low, high, query->first);
		last = registry_index_leaf_upto(node, count, last, query->first);
		leaf_holding(node, last, query);
		return;
	}
	last = registry_index_child_at(node, query->first);
	for (unsigned int i = last + 1; i-- > 0;) {
		if (i < last && cannot_be_tighter(query, node->keys[i + 1]))
			return;
		if (i < last && registry_index_reach(node, i) < query->last)
			continue;
		visit_holding(registry_index_child(node, i), i ? node->keys[i] : low,
			      i + 1 < node->count ? node->keys[i + 1] : high, query);
	}
}

void registry_index_holding(struct registry_index *index, struct registry_index_query *query)
{
	index_link root = root_of(index);

	forget(query);
	if (root)
		visit_holding(root, 0, UINT64_MAX, query);
}

static bool reaches_further(const struct registry_index_range *range,
			    const struct registry_index_query *query)
{
	if (!found(query) || range->last != query->best.last)
		return !found(query) || range->last > query->best.last;
	return is_tighter(range, &query->best);
}

/* What a range must reach to matter. */
static uint64_t least_reach(const struct registry_index_query *query)
{
	return found(query) ? query->best.last : query->first;
}

static void leaf_reaching(const struct registry_index_node *leaf,
			  struct registry_index_query *query)
{
	for (unsigned int i = registry_index_leaf_upto(leaf, leaf->count, 0, query->first);
	     i-- > 0;) {
		const struct registry_index_range *range = &leaf->ranges[i];

		if (range->last >= least_reach(query) && has_entry(range, query) &&
		    reaches_further(range, query))
			note(query, range);
	}
}

static void visit_reaching(const struct registry_index_node *node,
			   struct registry_index_query *query)
{
	if (node->leaf) {
		leaf_reaching(node, query);
		return;
	}
	for (unsigned int i = registry_index_child_at(node, query->first) + 1; i-- > 0;)
		if (registry_index_reach(node, i) >= least_reach(query))
			visit_reaching(registry_index_child_node(node, i), query);
}

void registry_index_reaching(struct registry_index *index, struct registry_index_query *query)
{
	index_link root = root_of(index);

	forget(query);
	if (root)
		visit_reaching(registry_index_node_of(root), query);
}

struct exact {
	uint64_t first, last;
	bool (*match)(const struct mrg_buffer *buffer, const void *arg);
	const void *arg;
};

static struct mrg_buffer *leaf_exact(const struct registry_index_node *leaf,
				     const struct exact *exact)
{
	for (unsigned int i = registry_index_leaf_upto(leaf, leaf->count, 0, exact->first);
	     i-- > 0;) {
		const struct registry_index_range *range = &leaf->ranges[i];

		if (range->first != exact->first)
			break;
		if (range->last == exact->last && exact->match(range->buffer, exact->arg))
			return range->buffer;
	}
	return NULL;
}

static struct mrg_buffer *visit_exact(const struct registry_index_node *node,
				      const struct exact *exact)
{
	struct mrg_buffer *buffer = NULL;

	if (node->leaf)
		return leaf_exact(node, exact);
	for (unsigned int i = registry_index_child_at(node, exact->first) + 1;
	     i-- > 0 && !buffer;) {
		buffer = visit_exact(registry_index_child_node(node, i), exact);
		/* The left sibling has ranges of this start only if the key is. */
		if (node->keys[i] != exact->first)
			break;
	}
	return buffer;
}

struct mrg_buffer *registry_index_exact(struct registry_index *index, uint64_t first, uint64_t last,
					bool (*match)(const struct mrg_buffer *buffer,
						      const void *arg),
					const void *arg)
{
	const struct exact exact = { first, last, match, arg };
	index_link root = root_of(index);

	return root ? visit_exact(registry_index_node_of(root), &exact) : NULL;
}
