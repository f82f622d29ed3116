/* SPDX-License-Identifier: MIT */
/* Inside the index: its nodes. */
#ifndef REGISTRY_INDEX_NODE_H
#define REGISTRY_INDEX_NODE_H

#include "registry/index.h"

/*
 * A leaf is 2 KiB, and a look-up reads one or two lines of it.  Leaves are so
 * few, for a million ranges, that what leads to them stays in a second-level
 * cache of 2 MiB.
 */
#ifndef INDEX_LEAF /* a test makes them small, and the tree deep */
#define INDEX_LEAF 63
#define INDEX_FANOUT 64 /* a power of two */
#endif
#define INDEX_DEPTH 16

/*
 * A node's address, and in its lowest bits, which are zero there, how many
 * ranges it holds if it is a leaf: where in it to look is worked out before it
 * is read.
 */
typedef uintptr_t index_link;
#define INDEX_COUNT ((index_link)63)

/*
 * @keys: first address of the first range below each child, at the time of the
 *	split; key 0 is not looked at.  Ranges of one first address may lie on
 *	both sides of a key.
 * @reach: the greatest last address below each child, or more
 */
struct registry_index_node {
	unsigned int count;
	bool leaf;
	/* No range lies across two cache lines. */
	_Alignas(32) union {
		struct registry_index_range ranges[INDEX_LEAF];
		struct {
			uint64_t keys[INDEX_FANOUT];
			_Atomic index_link children[INDEX_FANOUT];
			_Atomic uint64_t reach[INDEX_FANOUT];
		};
	};
};

static inline struct registry_index_node *registry_index_node_of(index_link link)
{
	return (struct registry_index_node *)(link & ~INDEX_COUNT);
}

static inline index_link registry_index_link_to(struct registry_index_node *node)
{
	return (index_link)node | (node && node->leaf ? node->count : 0);
}

static inline unsigned int registry_index_link_count(index_link link)
{
	return (unsigned int)(link & INDEX_COUNT);
}

/* How many of the leaf's @count ranges start at @first or before, searched from
 * a @guess on. */
static inline unsigned int registry_index_leaf_upto(const struct registry_index_node *leaf,
						    unsigned int count, unsigned int guess,
						    uint64_t first)
{
	while (guess && leaf->ranges[guess - 1].first > first)
		guess--;
	while (guess < count && leaf->ranges[guess].first <= first)
		guess++;
	return guess;
}

/*
 * Where in a leaf, most likely, as its ranges start between @low and @high:
 * buffers are mostly of a size, so their addresses are spread evenly.  Where
 * they are not, the search takes some steps more.
 */
static inline unsigned int registry_index_guess(unsigned int count, uint64_t low, uint64_t high,
						uint64_t first)
{
	double share;

	if (first <= low || high <= low)
		return first < low ? 0 : 1;
	share = (double)(first - low) / (double)(high - low);
	return share < 1 ? (unsigned int)(share * count) + 1 : count;
}

/*
 * The last child that can hold ranges that start at @first or before.  Keys past
 * the count are the greatest, so the steps are always the same ones: nothing to
 * be mispredicted, and few enough instructions for the processor to begin the
 * next look-up while this one waits for memory.
 */
static inline unsigned int registry_index_child_at(const struct registry_index_node *node,
						   uint64_t first)
{
	unsigned int at = 0;

	for (unsigned int step = INDEX_FANOUT / 2; step; step /= 2)
		at += node->keys[at + step] <= first ? step : 0;
	return at < node->count ? at : node->count - 1;
}

static inline index_link registry_index_child(const struct registry_index_node *node,
					      unsigned int slot)
{
	return atomic_load_explicit(&node->children[slot], memory_order_acquire);
}

static inline uint64_t registry_index_reach(const struct registry_index_node *node,
					    unsigned int slot)
{
	return atomic_load_explicit(&node->reach[slot], memory_order_relaxed);
}

static inline struct registry_index_node *
registry_index_child_node(const struct registry_index_node *node, unsigned int slot)
{
	return registry_index_node_of(registry_index_child(node, slot));
}

#endif
