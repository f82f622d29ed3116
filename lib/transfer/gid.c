/* SPDX-License-Identifier: MIT */
/* Which GID of this side goes with which of the peer's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transfer/transfer.h"

static bool is_ipv4(const uint8_t *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid, mapped, sizeof(mapped));
}

static bool is_link_local(const uint8_t *gid)
{
	if (is_ipv4(gid))
		return gid[12] == 169 && gid[13] == 254;
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/* RoCEv2 before v1; addresses that are routed before those of a link. */
static int rank(const struct transfer_gid *gid)
{
	return 2 * (gid->type != IBV_GID_TYPE_ROCE_V2) + is_link_local(gid->gid.raw);
}

static int by_rank(const void *a, const void *b)
{
	const struct transfer_gid *x = a, *y = b;
	int order = rank(x) - rank(y);

	return order ? order : (x->index > y->index) - (x->index < y->index);
}

void gid_sort(struct transfer_gid *gids, int count)
{
	qsort(gids, (size_t)count, sizeof(*gids), by_rank);
}

static bool fits(const struct transfer_gid *own, const struct message_gid *peer)
{
	return own->type == peer->type &&
	       is_ipv4(own->gid.raw) == is_ipv4(peer->gid) &&
	       is_link_local(own->gid.raw) == is_link_local(peer->gid);
}

int gid_choose(struct ibv_context *verbs, uint8_t port,
	       const struct transfer_gid *own, int own_count,
	       const struct message_gid *peers, int peer_count, int *mine,
	       int *theirs, struct mrg_error *error)
{
	(void)verbs;
	for (*mine = 0; *mine < own_count; ++*mine)
		for (*theirs = 0; *theirs < peer_count; ++*theirs)
			if (fits(&own[*mine], &peers[*theirs]))
				return 0;
	transfer_error_set(error, -ENODATA, "choose GID",
			   "Give both ports addresses of one family, or name GIDs.",
			   "none of the %d GIDs of port %u goes with any of the peer's %d: types or address families differ",
			   own_count, port, peer_count);
	return -ENODATA;
}
