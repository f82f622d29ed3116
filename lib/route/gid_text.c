/* SPDX-License-Identifier: MIT */
/* GIDs as text, and what kind of address one is. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "route/gid_facts.h"

static const uint8_t ipv4_prefix[12] = { [10] = 0xff, [11] = 0xff };

bool route_gid_is_ipv4(const uint8_t gid[16])
{
	return !memcmp(gid, ipv4_prefix, sizeof(ipv4_prefix));
}

bool route_gid_is_link_local(const uint8_t gid[16])
{
	if (route_gid_is_ipv4(gid))
		return gid[12] == 169 && gid[13] == 254;
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

const char *mrg_gid_text(const uint8_t gid[16], char text[MRG_GID_TEXT])
{
	bool ipv4 = route_gid_is_ipv4(gid);

	if (!inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? gid + 12 : gid, text, MRG_GID_TEXT))
		text[0] = '\0';
	return text;
}

int mrg_gid_parse(const char *text, uint8_t gid[16])
{
	uint8_t found[16];

	memcpy(found, ipv4_prefix, sizeof(ipv4_prefix));
	if (inet_pton(AF_INET, text, found + 12) != 1 && inet_pton(AF_INET6, text, found) != 1)
		return -EINVAL;
	memcpy(gid, found, sizeof(found));
	return 0;
}
