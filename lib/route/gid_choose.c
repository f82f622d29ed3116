/* SPDX-License-Identifier: MIT */
/* The choice of a GID by the kernel's routes. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "route/gid_facts.h"
#include "base/opts.h"

#define STAGE "choose GID"
#define VARIABLE "MRGUARD_GID_INDEX"

struct choosing {
	struct mrg_gid_facts *facts;
	const char *device;
	unsigned int port;
	const uint8_t (*peers)[16];
	size_t peer_count;
	uint32_t flags;
	struct mrg_gid_entry *entries;
	size_t count;
	struct mrg_error *error;
	int broken; /* the routes could not be asked */
	char why[160]; /* why the last GID that was tried does not reach */
};

static const char *or_none(const char *netdev)
{
	return netdev[0] ? netdev : "no known netdev";
}

/* ---- MRGUARD_GID_INDEX ---- */

/* "3", or "mlx5_0=3,mlx5_1=5".  Return: 0 with *index -1 where the device is not
 * named; -EINVAL. */
static int parse_demand(const char *value, const char *device, int *index)
{
	size_t name = strlen(device);
	const char *at = value;
	char *end;
	long number;

	*index = -1;
	while (*at) {
		size_t word = strcspn(at, ",");
		const char *equals = memchr(at, '=', word);
		const char *digits = equals ? equals + 1 : at;

		number = strtol(digits, &end, 10);
		if (end == digits || end != at + word || number < 0 || number > UINT16_MAX)
			return -EINVAL;
		if (!equals || ((size_t)(equals - at) == name && !memcmp(at, device, name)))
			*index = (int)number;
		at += word + (at[word] == ',');
	}
	return 0;
}

/* Return: 1: demanded and there; 0: not demanded; -errno. */
static int take_demanded(const struct choosing *in, struct mrg_gid_choice *choice)
{
	const char *value = secure_getenv(VARIABLE);
	int index, ret;

	if (!value || !*value)
		return 0;
	ret = parse_demand(value, in->device, &index);
	if (ret)
		return base_error_set(in->error, ret, STAGE,
				      "Set it to an index, or to DEVICE=INDEX pairs with commas.",
				      VARIABLE "=%s is malformed.", value);
	if (index < 0)
		return 0;
	for (size_t i = 0; i < in->count; i++)
		if (in->entries[i].index == index) {
			*choice =
				(struct mrg_gid_choice){ .entry = in->entries[i], .by_env = true };
			return 1;
		}
	return base_error_set(in->error, -EINVAL, STAGE,
			      "Name an index that show_gids lists, or unset the variable.",
			      VARIABLE "=%s: port %u of %s has no GID at index %d.", value,
			      in->port, in->device, index);
}

/* ---- routes ---- */

static bool fits_type(const struct choosing *in, const struct mrg_gid_entry *entry)
{
	if (in->flags & MRG_GID_V1)
		return entry->type == MRG_GID_ROCE_V1;
	return !(in->flags & MRG_GID_V2) || entry->type == MRG_GID_ROCE_V2;
}

static bool same_scope(const uint8_t a[16], const uint8_t b[16])
{
	return route_gid_is_ipv4(a) == route_gid_is_ipv4(b) &&
	       route_gid_is_link_local(a) == route_gid_is_link_local(b);
}

__attribute__((format(printf, 2, 3))) static bool does_not_reach(struct choosing *in,
								 const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(in->why, sizeof(in->why), format, args);
	va_end(args);
	return false;
}

/*
 * The kernel is asked with the GID's address as the source, as policy rules can
 * look at it.  A GID whose netdev cannot be seen (in a container, say) reaches
 * if the kernel would send from its address.
 */
static bool reaches(struct choosing *in, const struct mrg_gid_entry *entry, const uint8_t peer[16],
		    struct route_gid_route *route)
{
	char own[MRG_GID_TEXT], other[MRG_GID_TEXT];
	bool seen = entry->netdev[0];
	int ret = route_gid_route(in->facts, seen ? entry->gid : NULL, peer, entry->netdev, route);

	if (ret == -EIO || ret == -ENOMEM)
		in->broken = ret;
	mrg_gid_text(entry->gid, own);
	mrg_gid_text(peer, other);
	if (ret)
		return does_not_reach(in, "no route table leads from %s (%s) to %s: %s", own,
				      or_none(entry->netdev), other, strerror(-ret));
	if (route->local)
		return true;
	if (seen ? !strcmp(route->netdev, entry->netdev) : !memcmp(route->source, entry->gid, 16))
		return true;
	return does_not_reach(in, "route table %u sends to %s from %s by %s, and the GID is on %s",
			      route->table, other, own, route->netdev, or_none(entry->netdev));
}

/* How well a GID and a peer address go together, the smallest first. */
struct fit {
	int elsewhere;
	int type;
	int scope;
	size_t peer;
	int foreign; /* the kernel would send from another address */
	int overlay;
	int index;
};

static int compare(const struct fit *a, const struct fit *b)
{
	if (a->elsewhere != b->elsewhere)
		return a->elsewhere - b->elsewhere;
	if (a->type != b->type)
		return a->type - b->type;
	if (a->scope != b->scope)
		return a->scope - b->scope;
	if (a->peer != b->peer)
		return a->peer < b->peer ? -1 : 1;
	if (a->foreign != b->foreign)
		return a->foreign - b->foreign;
	if (a->overlay != b->overlay)
		return a->overlay - b->overlay;
	return a->index - b->index;
}

static bool is_own(struct choosing *in, const struct mrg_gid_entry *entry, const uint8_t peer[16])
{
	struct route_gid_route route;

	return !route_gid_route(in->facts, NULL, peer, entry->netdev, &route) &&
	       !memcmp(route.source, entry->gid, 16);
}

static struct fit fit_of(struct choosing *in, const struct mrg_gid_entry *entry, size_t peer)
{
	return (struct fit){
		.elsewhere = entry->elsewhere,
		.type = -(int)entry->type,
		.scope = route_gid_is_link_local(entry->gid),
		.peer = peer,
		.foreign = !is_own(in, entry, in->peers[peer]),
		.overlay = entry->overlay,
		.index = entry->index,
	};
}

static bool take_best(struct choosing *in, struct mrg_gid_choice *choice)
{
	struct route_gid_route route;
	struct fit best = { .type = 0 }, fit;
	bool found = false;

	for (size_t i = 0; i < in->count; i++)
		for (size_t peer = 0; peer < in->peer_count; peer++) {
			const struct mrg_gid_entry *entry = &in->entries[i];

			if (!fits_type(in, entry) || !same_scope(entry->gid, in->peers[peer]) ||
			    !reaches(in, entry, in->peers[peer], &route))
				continue;
			fit = fit_of(in, entry, peer);
			if (found && compare(&fit, &best) >= 0)
				continue;
			best = fit;
			found = true;
			*choice = (struct mrg_gid_choice){ .entry = *entry,
							   .peer = peer,
							   .table = route.table };
		}
	return found;
}

/* The first of the table's order, for the first peer address of its kind. */
static bool take_first(const struct choosing *in, struct mrg_gid_choice *choice)
{
	for (size_t i = 0; i < in->count; i++) {
		size_t peer = 0;

		while (peer < in->peer_count && !same_scope(in->entries[i].gid, in->peers[peer]))
			peer++;
		if (!fits_type(in, &in->entries[i]) || (peer && peer == in->peer_count))
			continue;
		*choice = (struct mrg_gid_choice){ .entry = in->entries[i], .peer = peer };
		return true;
	}
	return false;
}

/* ---- the choice ---- */

static int no_gid(const struct choosing *in)
{
	return base_error_set(in->error, -ENODATA, STAGE,
			      "Give the NIC's netdev an address, and check that the port is up.",
			      "The GID table of port %u of %s has no usable entry%s.", in->port,
			      in->device,
			      in->flags & MRG_GID_V1 ? " of RoCEv1" :
			      in->flags & MRG_GID_V2 ? " of RoCEv2" :
						       "");
}

static int no_route(struct choosing *in)
{
	char peer[MRG_GID_TEXT];

	if (in->broken)
		return base_error_set(in->error, in->broken, STAGE,
				      "Open the facts anew, and try again.",
				      "The kernel cannot be asked for the route to %s: %s.",
				      mrg_gid_text(in->peers[0], peer), strerror(-in->broken));
	if (!in->why[0])
		does_not_reach(in, "its %zu GIDs have no address of the same kind", in->count);
	return base_error_set(in->error, -ENETUNREACH, STAGE,
			      "Use a NIC that the peer's address is routed by, or mend the route.",
			      "Port %u of %s does not reach %s: %s.", in->port, in->device,
			      mrg_gid_text(in->peers[0], peer), in->why);
}

static bool has_type(const struct choosing *in)
{
	for (size_t i = 0; i < in->count; i++)
		if (fits_type(in, &in->entries[i]))
			return true;
	return false;
}

static int choose(struct choosing *in, struct mrg_gid_choice *choice)
{
	int ret = take_demanded(in, choice);

	if (ret)
		return ret < 0 ? ret : 0;
	if (in->count && in->entries[0].type == MRG_GID_IB) {
		*choice = (struct mrg_gid_choice){ .entry = in->entries[0] };
		return 0;
	}
	if (!has_type(in))
		return no_gid(in);
	if (!in->peer_count || in->flags & MRG_GID_NO_ROUTE)
		return take_first(in, choice) ? 0 : no_route(in);
	return take_best(in, choice) ? 0 : no_route(in);
}

int mrg_gid_choose(struct mrg_gid_facts *facts, const char *device, unsigned int port,
		   const uint8_t (*peers)[16], size_t peer_count, const struct mrg_gid_opts *opts,
		   struct mrg_gid_choice *choice, struct mrg_error *error)
{
	const uint32_t known = MRG_GID_NO_ROUTE | MRG_GID_V1 | MRG_GID_V2;
	struct mrg_gid_choice made;
	struct mrg_gid_opts o;
	struct choosing in = { .facts = facts,
			       .device = device,
			       .port = port,
			       .peers = peers,
			       .peer_count = peer_count,
			       .error = error };
	ssize_t count;
	int ret;

	if (base_opts_copy(&o, sizeof(o), opts) || o.reserved || o.flags & ~known ||
	    (o.flags & MRG_GID_V1 && o.flags & MRG_GID_V2))
		return base_error_set(error, -EINVAL, STAGE, BASE_OPTS_REMEDY,
				      "The options are malformed.");
	in.flags = o.flags;
	count = mrg_gid_list(facts, device, port, &in.entries);
	if (count == -ENOMEM)
		return base_error_set(error, -ENOMEM, STAGE, "Free memory.",
				      "There is no memory for the GID table.");
	if (count < 0)
		return base_error_set(
			error, (int)count, STAGE,
			"Name a device that ibv_devices lists, and a port that it has.",
			"There is no device %s with a port %u.", device, port);
	in.count = (size_t)count;
	ret = choose(&in, &made);
	if (!ret)
		*choice = made;
	free(in.entries);
	return ret;
}
