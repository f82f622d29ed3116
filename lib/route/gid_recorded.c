/* SPDX-License-Identifier: MIT */
/*
 * Routes of a recorded host: /.mrguard/routes, a line each, much as `ip route'
 * prints them:
 *
 *	10.113.5.0/24 dev eth5 src 10.113.5.2
 *	default via 10.16.0.254 dev eth10
 *	default via 10.113.7.1 dev eth7 table 107 from 10.113.7.2
 *	local 10.113.5.2 dev lo table 255
 *
 * `from' stands for the policy rule that leads to the table: such lines come
 * before those without.  Of the others the longest prefix wins.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "route/gid_facts.h"

#define MAIN_TABLE 254 /* RT_TABLE_MAIN */
#define MAX_ROUTES 4096

struct prefix {
	uint8_t gid[16];
	unsigned int bits; /* of 128 */
};

struct recorded_route {
	struct prefix to;
	struct prefix from;
	bool has_from;
	struct route_gid_route route;
};

struct gid_recorded {
	struct recorded_route *routes;
	size_t count;
};

static int parse_prefix(const char *word, struct prefix *prefix)
{
	char text[MRG_GID_TEXT];
	const char *slash = strchr(word, '/');
	size_t length = slash ? (size_t)(slash - word) : strlen(word);
	unsigned int width;

	if (length >= sizeof(text))
		return -EINVAL;
	memcpy(text, word, length);
	text[length] = '\0';
	if (mrg_gid_parse(text, prefix->gid))
		return -EINVAL;
	width = route_gid_is_ipv4(prefix->gid) ? 32 : 128;
	prefix->bits = slash ? (unsigned int)strtoul(slash + 1, NULL, 10) : width;
	if (prefix->bits > width)
		return -EINVAL;
	prefix->bits += 128 - width;
	return 0;
}

static bool holds(const struct prefix *prefix, const uint8_t gid[16])
{
	unsigned int bytes = prefix->bits / 8, rest = prefix->bits % 8;

	return !memcmp(prefix->gid, gid, bytes) &&
	       (!rest || !((prefix->gid[bytes] ^ gid[bytes]) >> (8 - rest)));
}

static int parse_pair(const char *key, const char *value, struct recorded_route *route)
{
	if (!strcmp(key, "dev"))
		return snprintf(route->route.netdev, sizeof(route->route.netdev), "%s", value) <
				       (int)sizeof(route->route.netdev) ?
			       0 :
			       -EINVAL;
	if (!strcmp(key, "src"))
		return mrg_gid_parse(value, route->route.source);
	if (!strcmp(key, "table")) {
		route->route.table = (uint32_t)strtoul(value, NULL, 10);
		return 0;
	}
	if (!strcmp(key, "from")) {
		route->has_from = true;
		return parse_prefix(value, &route->from);
	}
	return strcmp(key, "via") ? -EINVAL : 0;
}

static int parse_line(char *line, struct recorded_route *route)
{
	char *rest, *word = strtok_r(line, " \t", &rest), *value;
	int ret;

	memset(route, 0, sizeof(*route));
	route->route.table = MAIN_TABLE;
	if (!strcmp(word, "local")) {
		route->route.local = true;
		word = strtok_r(NULL, " \t", &rest);
	}
	if (!word)
		return -EINVAL;
	ret = parse_prefix(strcmp(word, "default") ? word : "0.0.0.0/0", &route->to);
	while (!ret && (word = strtok_r(NULL, " \t", &rest))) {
		value = strtok_r(NULL, " \t", &rest);
		ret = value ? parse_pair(word, value, route) : -EINVAL;
	}
	return ret;
}

static int parse_all(char *text, struct gid_recorded *recorded)
{
	char *rest, *line;
	int ret = 0;

	for (line = strtok_r(text, "\n", &rest); line && !ret; line = strtok_r(NULL, "\n", &rest)) {
		line += strspn(line, " \t");
		if (!*line || *line == '#')
			continue;
		if (recorded->count == MAX_ROUTES)
			return -E2BIG;
		ret = parse_line(line, &recorded->routes[recorded->count++]);
	}
	return ret;
}

int route_gid_recorded_open(struct mrg_tree *tree, struct gid_recorded **out)
{
	struct gid_recorded *recorded = calloc(1, sizeof(*recorded));
	char *text = malloc(MRG_PRIVATE_TREE_MAX_FILE);
	int ret = -ENOMEM;

	if (recorded)
		recorded->routes = calloc(MAX_ROUTES, sizeof(*recorded->routes));
	if (recorded && recorded->routes && text) {
		ssize_t length = mrg_private_tree_read(tree, "/.mrguard/routes", text,
						       MRG_PRIVATE_TREE_MAX_FILE);

		ret = length > 0 ? parse_all(text, recorded) : 0;
	}
	free(text);
	if (!ret)
		*out = recorded;
	else if (recorded)
		route_gid_recorded_close(recorded);
	return ret;
}

void route_gid_recorded_close(struct gid_recorded *recorded)
{
	free(recorded->routes);
	free(recorded);
}

static bool is_better(const struct recorded_route *a, const struct recorded_route *b)
{
	if (!b || a->has_from != b->has_from)
		return !b || a->has_from;
	return a->to.bits > b->to.bits;
}

int route_gid_recorded_route(const struct gid_recorded *recorded, const uint8_t *from,
			     const uint8_t to[16], const char *netdev,
			     struct route_gid_route *route)
{
	bool scoped = !route_gid_is_ipv4(to) && route_gid_is_link_local(to);
	const struct recorded_route *best = NULL;

	for (size_t i = 0; i < recorded->count; i++) {
		const struct recorded_route *at = &recorded->routes[i];

		if (route_gid_is_ipv4(at->to.gid) != route_gid_is_ipv4(to) || !holds(&at->to, to) ||
		    (at->has_from && (!from || !holds(&at->from, from))) ||
		    (scoped && strcmp(at->route.netdev, netdev)))
			continue;
		if (is_better(at, best))
			best = at;
	}
	if (!best)
		return -ENETUNREACH;
	*route = best->route;
	return 0;
}
