/* SPDX-License-Identifier: MIT */
/*
 * The writer's side of the index.  A change is made ready beside the tree and
 * then shown by one store, so that it can still fail until then.
 */
#include <errno.h>
#include <string.h>

#include "registry/index_node.h"
#include "registry/rcu.h"

#ifdef __SANITIZE_THREAD__
char rcu_period;
#endif

/* The way from the root to a leaf; @slot: where in each inner node it goes on. */
struct path {
	unsigned int depth; /* of the leaf */
	struct {
		struct registry_index_node *node;
		unsigned int slot;
	} step[INDEX_DEPTH];
};

/* Nodes made for a change, and nodes that it replaces. */
struct change {
	struct registry_index *index;
	struct registry_index_node *made[2 * INDEX_DEPTH + 1];
	struct registry_index_node *replaced[INDEX_DEPTH];
	unsigned int made_count;
	unsigned int replaced_count;
};

void registry_index_init(struct registry_index *index, size_t record_bytes)
{
	atomic_store_explicit(&index->root, 0, memory_order_relaxed);
	index->retired_count = 0;
	registry_arena_init(&index->nodes, sizeof(struct registry_index_node));
	registry_arena_init(&index->records, record_bytes);
}

void registry_index_retire(struct registry_index *index, struct registry_arena *arena, void *block)
{
	if (index->retired_count == INDEX_RETIRED) {
		registry_rcu_wait();
		for (size_t i = 0; i < INDEX_RETIRED; i++)
			registry_arena_give(index->retired[i].arena, index->retired[i].block);
		index->retired_count = 0;
	}
	index->retired[index->retired_count].arena = arena;
	index->retired[index->retired_count++].block = block;
}

static struct registry_index_node *make_node(struct change *change, bool leaf)
{
	struct registry_index_node *node = registry_arena_take(&change->index->nodes);

	if (!node)
		return NULL;
	node->count = 0;
	node->leaf = leaf;
	for (unsigned int i = 0; i < INDEX_FANOUT && !leaf; i++)
		node->keys[i] = UINT64_MAX;
	change->made[change->made_count++] = node;
	return node;
}

/* Readers inside a replaced node go on there; it no longer changes. */
static void settle(struct change *change)
{
	while (change->replaced_count)
		registry_index_retire(change->index, &change->index->nodes,
				      change->replaced[--change->replaced_count]);
}

/* ---- plain copies; only the writer's own nodes are written ---- */

static void set_reach(struct registry_index_node *node, unsigned int slot, uint64_t reach)
{
	atomic_store_explicit(&node->reach[slot], reach, memory_order_relaxed);
}

static void set_child(struct registry_index_node *node, unsigned int slot, index_link child)
{
	atomic_store_explicit(&node->children[slot], child, memory_order_release);
}

static struct registry_index_node *root_node(const struct registry_index *index)
{
	return registry_index_node_of(atomic_load_explicit(&index->root, memory_order_relaxed));
}

static void append_range(struct registry_index_node *leaf, const struct registry_index_range *range)
{
	struct registry_index_range *to = &leaf->ranges[leaf->count++];

	to->first = range->first;
	to->last = range->last;
	to->buffer = range->buffer;
	atomic_store_explicit(&to->have, atomic_load_explicit(&range->have, memory_order_relaxed),
			      memory_order_relaxed);
}

static void append_child(struct registry_index_node *node, uint64_t key, uint64_t reach,
			 index_link child)
{
	node->keys[node->count] = key;
	set_reach(node, node->count, reach);
	set_child(node, node->count, child);
	node->count++;
}

static void copy_children(struct registry_index_node *to, const struct registry_index_node *from,
			  unsigned int start, unsigned int end)
{
	for (unsigned int i = start; i < end; i++)
		append_child(to, from->keys[i], registry_index_reach(from, i),
			     registry_index_child(from, i));
}

static void copy_ranges(struct registry_index_node *to, const struct registry_index_node *from,
			unsigned int start, unsigned int end)
{
	for (unsigned int i = start; i < end; i++)
		append_range(to, &from->ranges[i]);
}

static uint64_t node_reach(const struct registry_index_node *node)
{
	uint64_t reach = 0;

	for (unsigned int i = 0; i < node->count; i++) {
		uint64_t last = node->leaf ? node->ranges[i].last : registry_index_reach(node, i);

		reach = last > reach ? last : reach;
	}
	return reach;
}

static uint64_t node_key(const struct registry_index_node *node)
{
	return node->leaf ? node->ranges[0].first : node->keys[0];
}

/* ---- showing a change ---- */

static void show(struct registry_index *index, const struct path *path, unsigned int depth,
		 struct registry_index_node *node)
{
	if (depth)
		set_child(path->step[depth - 1].node, path->step[depth - 1].slot,
			  registry_index_link_to(node));
	else
		atomic_store_explicit(&index->root, registry_index_link_to(node),
				      memory_order_release);
}

static void raise_reach(const struct path *path, uint64_t last)
{
	for (unsigned int i = 0; i < path->depth; i++)
		if (registry_index_reach(path->step[i].node, path->step[i].slot) < last)
			set_reach(path->step[i].node, path->step[i].slot, last);
}

/* From @depth up, after @node there has taken its place. */
static void lower_reach(const struct path *path, unsigned int depth,
			const struct registry_index_node *node)
{
	while (depth-- > 0) {
		set_reach(path->step[depth].node, path->step[depth].slot, node_reach(node));
		node = path->step[depth].node;
	}
}

/* ---- insertion ---- */

static void walk_to(struct registry_index *index, uint64_t first, struct path *path)
{
	struct registry_index_node *node = root_node(index);

	for (path->depth = 0; !node->leaf; path->depth++) {
		unsigned int slot = registry_index_child_at(node, first);

		path->step[path->depth].node = node;
		path->step[path->depth].slot = slot;
		node = registry_index_child_node(node, slot);
	}
	path->step[path->depth].node = node;
}

/* The leaf with one range more, in one node or in two halves (*right). */
static int leaf_with(struct change *change, const struct registry_index_node *leaf,
		     const struct registry_index_range *range, struct registry_index_node **left,
		     struct registry_index_node **right)
{
	unsigned int at = registry_index_leaf_upto(leaf, leaf->count, 0, range->first);
	unsigned int half = leaf->count < INDEX_LEAF ? INDEX_LEAF + 1 : leaf->count / 2;
	struct registry_index_node *to = make_node(change, true);

	if (!to)
		return -ENOMEM;
	*left = to;
	*right = NULL;
	for (unsigned int i = 0; i <= leaf->count; i++) {
		if (to->count >= half && !*right) {
			*right = to = make_node(change, true);
			if (!to)
				return -ENOMEM;
		}
		if (i == at)
			append_range(to, range);
		if (i < leaf->count)
			append_range(to, &leaf->ranges[i]);
	}
	return 0;
}

/* The node with @left and @right in @slot's place, likewise. */
static int node_with(struct change *change, const struct registry_index_node *node,
		     unsigned int slot, struct registry_index_node *left,
		     struct registry_index_node *right, struct registry_index_node **first,
		     struct registry_index_node **second)
{
	unsigned int half = node->count < INDEX_FANOUT ? INDEX_FANOUT + 1 : node->count / 2;
	struct registry_index_node *to = make_node(change, false);

	if (!to)
		return -ENOMEM;
	*first = to;
	*second = NULL;
	for (unsigned int i = 0; i < node->count; i++) {
		if (to->count >= half && !*second) {
			*second = to = make_node(change, false);
			if (!to)
				return -ENOMEM;
		}
		if (i != slot) {
			copy_children(to, node, i, i + 1);
			continue;
		}
		append_child(to, node->keys[i], node_reach(left), registry_index_link_to(left));
		append_child(to, node_key(right), node_reach(right), registry_index_link_to(right));
	}
	return 0;
}

/* Two halves go into the node above, which may become two in turn.
 * Return: the depth at which *left is to be shown; -ENOMEM. */
static int climb(struct change *change, const struct path *path, struct registry_index_node **left,
		 struct registry_index_node **right)
{
	unsigned int depth = path->depth;
	int ret;

	while (*right && depth > 0) {
		struct registry_index_node *node = path->step[--depth].node;
		struct registry_index_node *below = *left, *beside = *right;

		ret = node_with(change, node, path->step[depth].slot, below, beside, left, right);
		if (ret)
			return ret;
		change->replaced[change->replaced_count++] = node;
	}
	return (int)depth;
}

static struct registry_index_node *new_root(struct change *change, struct registry_index_node *left,
					    struct registry_index_node *right)
{
	struct registry_index_node *root = make_node(change, false);

	if (!root)
		return NULL;
	append_child(root, node_key(left), node_reach(left), registry_index_link_to(left));
	append_child(root, node_key(right), node_reach(right), registry_index_link_to(right));
	return root;
}

static int insert_first(struct registry_index *index, const struct registry_index_range *range)
{
	struct change change = { .index = index, .made_count = 0 };
	struct registry_index_node *leaf = make_node(&change, true);

	if (!leaf)
		return -ENOMEM;
	append_range(leaf, range);
	atomic_store_explicit(&index->root, registry_index_link_to(leaf), memory_order_release);
	return 0;
}

int registry_index_insert(struct registry_index *index, const struct registry_index_range *range)
{
	struct registry_index_node *left, *right;
	struct change change = { .index = index, .made_count = 0 };
	struct path path;
	int depth;

	if (!root_node(index))
		return insert_first(index, range);
	walk_to(index, range->first, &path);
	change.replaced[change.replaced_count++] = path.step[path.depth].node;
	depth = leaf_with(&change, path.step[path.depth].node, range, &left, &right);
	if (!depth)
		depth = climb(&change, &path, &left, &right);
	if (depth >= 0 && right) {
		left = new_root(&change, left, right);
		depth = left ? 0 : -ENOMEM;
	}
	if (depth < 0) {
		while (change.made_count)
			registry_arena_give(&index->nodes, change.made[--change.made_count]);
		return depth;
	}
	raise_reach(&path, range->last);
	show(index, &path, (unsigned int)depth, left);
	settle(&change);
	return 0;
}

/* ---- removal ---- */

/* Ranges of one start can lie below several children: tries them from the right. */
static bool walk_to_range(struct registry_index_node *node,
			  const struct registry_index_range *range, struct path *path,
			  unsigned int depth, unsigned int *at)
{
	path->step[depth].node = node;
	if (node->leaf) {
		path->depth = depth;
		for (unsigned int i = registry_index_leaf_upto(node, node->count, 0, range->first);
		     i-- > 0;) {
			*at = i;
			if (node->ranges[i].first != range->first)
				return false;
			if (node->ranges[i].buffer == range->buffer)
				return true;
		}
		return false;
	}
	for (unsigned int i = registry_index_child_at(node, range->first) + 1; i-- > 0;) {
		path->step[depth].slot = i;
		if (walk_to_range(registry_index_child_node(node, i), range, path, depth + 1, at))
			return true;
		if (node->keys[i] != range->first)
			return false;
	}
	return false;
}

/* The node at @depth without what was in @slot; nodes that this empties go too.
 * Return: the depth at which *node (NULL: nothing is left) is to be shown. */
static int node_without(struct change *change, const struct path *path, unsigned int slot,
			struct registry_index_node **out)
{
	unsigned int depth = path->depth;
	const struct registry_index_node *node = path->step[depth].node;
	struct registry_index_node *copy;

	while (node->count == 1 && depth > 0) {
		change->replaced[change->replaced_count++] = path->step[depth].node;
		node = path->step[--depth].node;
		slot = path->step[depth].slot;
	}
	change->replaced[change->replaced_count++] = path->step[depth].node;
	*out = NULL;
	if (node->count == 1)
		return 0;
	copy = make_node(change, node->leaf);
	if (!copy)
		return -ENOMEM;
	if (node->leaf) {
		copy_ranges(copy, node, 0, slot);
		copy_ranges(copy, node, slot + 1, node->count);
	} else {
		copy_children(copy, node, 0, slot);
		copy_children(copy, node, slot + 1, node->count);
	}
	*out = copy;
	return (int)depth;
}

void registry_index_set(struct registry_index *index, const struct registry_index_range *range)
{
	struct registry_index_node *root = root_node(index);
	unsigned int at = 0;
	struct path path;

	if (root && walk_to_range(root, range, &path, 0, &at))
		atomic_store_explicit(&path.step[path.depth].node->ranges[at].have, range->have,
				      memory_order_release);
}

int registry_index_remove(struct registry_index *index, const struct registry_index_range *range)
{
	struct registry_index_node *root = root_node(index);
	struct change change = { .index = index, .made_count = 0 };
	struct registry_index_node *node;
	unsigned int at = 0;
	struct path path;
	int depth;

	if (!root || !walk_to_range(root, range, &path, 0, &at))
		return 0;
	depth = node_without(&change, &path, at, &node);
	if (depth < 0)
		return depth;
	show(index, &path, (unsigned int)depth, node);
	if (node)
		lower_reach(&path, (unsigned int)depth, node);
	settle(&change);
	return 0;
}

/* ---- all of it ---- */

static int each_below(const struct registry_index_node *node,
		      int (*visit)(struct mrg_buffer *buffer, void *arg), void *arg)
{
	int ret = 0;

	for (unsigned int i = 0; i < node->count && !ret; i++)
		ret = node->leaf ? visit(node->ranges[i].buffer, arg) :
				   each_below(registry_index_child_node(node, i), visit, arg);
	return ret;
}

int registry_index_each(struct registry_index *index,
			int (*visit)(struct mrg_buffer *buffer, void *arg), void *arg)
{
	const struct registry_index_node *root = root_node(index);

	return root ? each_below(root, visit, arg) : 0;
}

void registry_index_destroy(struct registry_index *index)
{
	registry_arena_destroy(&index->nodes);
	registry_arena_destroy(&index->records);
}
