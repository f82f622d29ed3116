/* SPDX-License-Identifier: MIT */
/*
 * Which GID of this side's port goes with which of a peer's: as the kernel's
 * routes say (see mrg_gid(3)), and where they say nothing, by what the two have
 * in common.
 */
#ifndef ROUTE_GID_PAIR_H
#define ROUTE_GID_PAIR_H

#include <infiniband/verbs.h>

#include <mrguard/common.h>

#define ROUTE_GIDS_MAX 256 /* of a port */
#define ROUTE_PEERS_MAX 8 /* GIDs of a peer */

struct route_gid {
	union ibv_gid gid;
	uint32_t index;
	uint32_t type; /* enum ibv_gid_type */
};

struct route_gid_peer {
	uint8_t gid[16];
	uint8_t type; /* enum ibv_gid_type */
};

/** route_gid_list() - GIDs of a port, the most wanted first.  Return: their number or -errno. */
int route_gid_list(struct ibv_context *verbs, uint8_t port, struct route_gid *gids, int cap);

/**
 * route_gid_pair() - which of @own reaches which of @peers, by the routes
 * @mine, @theirs: OUT
 * @error: OUT on failure
 *
 * Return: 0; -ENODATA (no two go together); -ENETUNREACH and others of
 * mrg_gid_choose().
 */
int route_gid_pair(struct ibv_context *verbs, uint8_t port, const struct route_gid *own,
		   int own_count, const struct route_gid_peer *peers, int peer_count, int *mine,
		   int *theirs, struct mrg_error *error);
/** route_gid_match() - the same, by type and address family alone.  Return: 0; -ENODATA. */
int route_gid_match(struct ibv_context *verbs, uint8_t port, const struct route_gid *own,
		    int own_count, const struct route_gid_peer *peers, int peer_count, int *mine,
		    int *theirs, struct mrg_error *error);

#endif
