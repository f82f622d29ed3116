/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "route/gid_facts.h"
#include "route/gid_pair.h"

/* Valid entries of all ports: 32 bytes each in an attribute whose length has 16
 * bits (struct ib_uverbs_attr); 4,096 were seen to give none at all. */
#define GID_TABLE_MAX 1024

/* RoCEv2 before v1; addresses that are routed before those of a link. */
static int rank(const struct route_gid *gid)
{
	return 2 * (gid->type != IBV_GID_TYPE_ROCE_V2) + route_gid_is_link_local(gid->gid.raw);
}

static int by_rank(const void *a, const void *b)
{
	const struct route_gid *x = a, *y = b;
	int order = rank(x) - rank(y);

	return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* One question for the whole table, which can have a thousand empty entries. */
int route_gid_list(struct ibv_context *verbs, uint8_t port, struct route_gid *gids, int cap)
{
	struct ibv_gid_entry *entries = calloc(GID_TABLE_MAX, sizeof(*entries));
	ssize_t all;
	int count = 0;

	if (!entries)
		return -ENOMEM;
	all = ibv_query_gid_table(verbs, entries, GID_TABLE_MAX, 0);
	for (ssize_t i = 0; i < all && count < cap; i++) {
		if (entries[i].port_num != port)
			continue;
		gids[count].gid = entries[i].gid;
		gids[count].index = entries[i].gid_index;
		gids[count++].type = entries[i].gid_type;
	}
	free(entries);
	if (all < 0)
		return (int)all;
	qsort(gids, (size_t)count, sizeof(*gids), by_rank);
	return count;
}

static bool fits(const struct route_gid *own, const struct route_gid_peer *peer)
{
	return own->type == peer->type &&
	       route_gid_is_ipv4(own->gid.raw) == route_gid_is_ipv4(peer->gid) &&
	       route_gid_is_link_local(own->gid.raw) == route_gid_is_link_local(peer->gid);
}

int route_gid_match(struct ibv_context *verbs, uint8_t port, const struct route_gid *own,
		    int own_count, const struct route_gid_peer *peers, int peer_count, int *mine,
		    int *theirs, struct mrg_error *error)
{
	(void)verbs;
	for (*mine = 0; *mine < own_count; ++*mine)
		for (*theirs = 0; *theirs < peer_count; ++*theirs)
			if (fits(&own[*mine], &peers[*theirs]))
				return 0;
	base_error_set(
		error, -ENODATA, "choose GID",
		"Give both ports addresses of one family, or name GIDs.",
		"None of the %d GIDs of port %u goes with any of the peer's %d: types or address families differ.",
		own_count, port, peer_count);
	return -ENODATA;
}

/* ---- by routes ---- */

static int find_own(const struct route_gid *own, int count, const struct mrg_gid_entry *entry)
{
	for (int i = 0; i < count; i++)
		if (own[i].index == (uint32_t)entry->index)
			return i;
	return -1;
}

/* The peer's GIDs of one type, so that v1 does not meet v2. */
static int peers_of(const struct route_gid_peer *peers, int count, uint8_t type,
		    uint8_t (*gids)[16], int *numbers)
{
	int n = 0;

	for (int i = 0; i < count; i++) {
		if (peers[i].type != type)
			continue;
		numbers[n] = i;
		memcpy(gids[n++], peers[i].gid, sizeof(gids[0]));
	}
	return n;
}

static int ask_routes(struct mrg_gid_facts *facts, struct ibv_context *verbs, uint8_t port,
		      uint8_t type, const struct route_gid *own, int own_count,
		      const struct route_gid_peer *peers, int peer_count, int *mine, int *theirs,
		      struct mrg_error *error)
{
	struct mrg_gid_opts opts = { .size = sizeof(opts),
				     .flags = type == IBV_GID_TYPE_ROCE_V2 ? MRG_GID_V2 :
									     MRG_GID_V1 };
	uint8_t gids[ROUTE_PEERS_MAX][16];
	struct mrg_gid_choice choice;
	int numbers[ROUTE_PEERS_MAX], ret;
	int n = peers_of(peers, peer_count, type, gids, numbers);

	if (!n)
		return -ENODATA;
	ret = mrg_gid_choose(facts, ibv_get_device_name(verbs->device), port,
			     (const uint8_t(*)[16])gids, (size_t)n, &opts, &choice, error);
	if (ret)
		return ret;
	*mine = find_own(own, own_count, &choice.entry);
	*theirs = numbers[choice.peer < (size_t)n ? choice.peer : 0];
	return *mine < 0 ? -ENODATA : 0;
}

/*
 * Without facts, the two only have to fit.  A missing route is an error at once,
 * not a timeout later.
 */
int route_gid_pair(struct ibv_context *verbs, uint8_t port, const struct route_gid *own,
		   int own_count, const struct route_gid_peer *peers, int peer_count, int *mine,
		   int *theirs, struct mrg_error *error)
{
	static const uint8_t types[] = { IBV_GID_TYPE_ROCE_V2, IBV_GID_TYPE_ROCE_V1 };
	struct mrg_gid_facts *facts;
	long valid[ROUTE_GIDS_MAX];
	int ret = -ENODATA;

	if (mrg_gid_open(&facts, NULL))
		return route_gid_match(verbs, port, own, own_count, peers, peer_count, mine, theirs,
				       error);
	/* Tables are sparse, rxe's has 1,024 places: a file for each is slow. */
	for (int i = 0; i < own_count; i++)
		valid[i] = own[i].index;
	facts->only = valid;
	facts->only_count = (size_t)own_count;
	for (size_t i = 0; i < sizeof(types) && ret == -ENODATA; i++)
		ret = ask_routes(facts, verbs, port, types[i], own, own_count, peers, peer_count,
				 mine, theirs, error);
	mrg_gid_close(facts);
	if (ret == -ENODATA || ret == -EIO || ret == -ENOMEM)
		return route_gid_match(verbs, port, own, own_count, peers, peer_count, mine, theirs,
				       error);
	return ret;
}
