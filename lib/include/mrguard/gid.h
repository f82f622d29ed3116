/* SPDX-License-Identifier: MIT */
/*
 * Which GID to reach a peer from, as the kernel's routes say.  See mrg_gid(3).
 *
 * A GID is right if the route to the peer leaves by the GID's own netdev.  That
 * is asked, not guessed from names or address classes.  Addresses are those of
 * GIDs: 16 bytes, IPv4 as ::ffff:a.b.c.d.
 */
#ifndef MRGUARD_GID_H
#define MRGUARD_GID_H

#include <stdbool.h>
#include <sys/types.h>
#include <mrguard/common.h>
#include <mrguard/descriptor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mrg_gid_facts; /* where GID tables and routes are read */

/**
 * mrg_gid_open() - open the facts
 * @facts: OUT, to be closed with mrg_gid_close()
 * @root: NULL: the running host, in the calling thread's network namespace.
 *	Otherwise a recorded host's root: its files, and routes as
 *	/.mrguard/routes tells them (see mrg_gid(3)).
 *
 * Return: 0; -errno of open(2) or of the netlink socket; -ENOMEM.  One thread
 * at a time may use a handle.
 */
MRG_API int mrg_gid_open(struct mrg_gid_facts **facts, const char *root);
/** mrg_gid_close() - close; NULL is allowed */
MRG_API void mrg_gid_close(struct mrg_gid_facts *facts);

/**
 * struct mrg_gid_entry - an entry of a GID table
 * @gid, @type:	its identity: the index can change when a port flaps
 * @index:	in the table
 * @netdev:	it belongs to; "" on InfiniBand, or not visible
 * @overlay:	the netdev is neither a network card's nor a bond of such
 * @elsewhere:	the netdev is not in this network namespace: the GID is another
 *	container's, or the host's
 * @reserved:	0
 */
struct mrg_gid_entry {
	uint8_t gid[16];
	enum mrg_gid_type type;
	int index;
	bool overlay, elsewhere;
	char netdev[16];
	uint64_t reserved;
};

/**
 * mrg_gid_list() - a port's GIDs, the most preferred first
 * @device: "mlx5_0"
 * @port: 1...
 * @entries: OUT, to be freed with free(3)
 *
 * No route is asked.  The order: netdevs of this namespace, others; RoCEv2, v1;
 * IPv4 and global IPv6, link-local (169.254/16 too); a card's or bond's netdev,
 * others; lower index.  Entries that are zero or that the kernel does not show
 * are passed over, wherever in the table they are.
 *
 * Return: their number; -ENODEV (no such device or port); -ENOMEM.
 */
MRG_API ssize_t mrg_gid_list(struct mrg_gid_facts *facts, const char *device, unsigned int port,
			     struct mrg_gid_entry **entries);

/**
 * struct mrg_gid_choice - a GID, and why
 * @entry:	to use: @entry.index is what ibv_modify_qp() takes
 * @peer:	index of the peer address that it reaches
 * @table:	route table that leads there; 0 where none was asked
 * @by_env:	MRGUARD_GID_INDEX demanded it
 * @reserved:	0
 */
struct mrg_gid_choice {
	struct mrg_gid_entry entry;
	size_t peer;
	uint32_t table;
	bool by_env;
	uint64_t reserved[2];
};

#define MRG_GID_NO_ROUTE (1u << 0) /* do not ask for routes */
#define MRG_GID_V1 (1u << 1) /* RoCEv1 only, as the peer has no v2 */
#define MRG_GID_V2 (1u << 2) /* RoCEv2 only */

/** struct mrg_gid_opts - how to choose.  @flags: MRG_GID_* */
struct mrg_gid_opts {
	size_t size;
	uint32_t flags;
	uint32_t reserved; /* 0 */
};

/**
 * mrg_gid_choose() - the GID to reach a peer from
 * @facts: the handle
 * @device, @port: the NIC's
 * @peers, @peer_count: addresses that the peer can be reached at, the most
 *	wanted first; on InfiniBand not looked at
 * @opts: NULL for defaults
 * @choice: OUT
 * @error: OUT when it fails, with NIC, address and route table; NULL is allowed
 *
 * Of the GIDs whose netdev the kernel routes to a peer address by, the first
 * in the order of mrg_gid_list(); at equal rank, that which the kernel itself
 * would send from, before others.  IPv4 goes with IPv4, link-local with link-local.
 * Without @peers, the first of that order.
 *
 * MRGUARD_GID_INDEX in the environment ("3", or "mlx5_0=3,mlx5_1=5") comes
 * before all that; the entry must be there.
 *
 * Return: 0, or
 * -ENODEV: no such device or port
 * -ENODATA: its table has no usable GID (or not the type demanded)
 * -ENETUNREACH: no route leads from this NIC to any of @peers
 * -EINVAL: malformed options, or MRGUARD_GID_INDEX names no entry
 * -ENOMEM, -EIO (netlink failed)
 */
MRG_API int mrg_gid_choose(struct mrg_gid_facts *facts, const char *device, unsigned int port,
			   const uint8_t (*peers)[16], size_t peer_count,
			   const struct mrg_gid_opts *opts, struct mrg_gid_choice *choice,
			   struct mrg_error *error);

/**
 * mrg_gid_find() - a GID's index now
 * @gid, @type: its identity
 * @entry: OUT
 *
 * To be asked again after a port event (IBV_EVENT_GID_CHANGE).
 *
 * Return: 0; -ENOENT (the table has it no more); -ENODEV; -ENOMEM.
 */
MRG_API int mrg_gid_find(struct mrg_gid_facts *facts, const char *device, unsigned int port,
			 const uint8_t gid[16], enum mrg_gid_type type,
			 struct mrg_gid_entry *entry);

#define MRG_GID_TEXT 48
/** mrg_gid_text() - "10.14.0.72" for an IPv4-mapped one, else as IPv6.
 *  Return: @text */
MRG_API const char *mrg_gid_text(const uint8_t gid[16], char text[MRG_GID_TEXT]);
/** mrg_gid_parse() - from an IPv4 or IPv6 address in text; -EINVAL */
MRG_API int mrg_gid_parse(const char *text, uint8_t gid[16]);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_GID_H */
