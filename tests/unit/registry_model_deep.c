/* SPDX-License-Identifier: MIT */
/* The same random history on an index of tiny nodes: a deep tree, where each few
 * steps split nodes and empty them on every level. */
#define INDEX_LEAF 3
#define INDEX_FANOUT 4

#include "registry/index_find.c"
#include "registry/index_change.c"

#include "registry_model.c"
