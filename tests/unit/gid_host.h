/* SPDX-License-Identifier: MIT */
/* A recorded host for GID tests: files below a folder of its own. */
#ifndef UNIT_GID_HOST_H
#define UNIT_GID_HOST_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <mrguard/gid.h>

#define V1 "IB/RoCE v1"
#define V2 "RoCE v2"

static char root[64];

static void make_way(char *path)
{
	for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
		*at = '\0';
		mkdir(path, 0755);
	}
}

__attribute__((format(printf, 2, 3))) static void put(const char *text, const char *format, ...)
{
	char path[512];
	size_t length = (size_t)snprintf(path, sizeof(path), "%s", root);
	va_list args;
	FILE *file;

	va_start(args, format);
	vsnprintf(path + length, sizeof(path) - length, format, args);
	va_end(args);
	make_way(path);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "%s\n", text);
	fclose(file);
}

static void put_device(const char *name, const char *layer)
{
	put(layer, "/sys/class/infiniband/%s/ports/1/link_layer", name);
}

/* @address as mrg_gid_parse() takes it; @type NULL: its file cannot be read. */
static void put_gid(const char *device, int index, const char *address, const char *type,
		    const char *netdev)
{
	char text[48];
	uint8_t gid[16];

	assert_int_equal(mrg_gid_parse(address, gid), 0);
	for (int i = 0; i < 8; i++)
		sprintf(text + 5 * i, "%02x%02x:", gid[2 * i], gid[2 * i + 1]);
	text[39] = '\0';
	put(text, "/sys/class/infiniband/%s/ports/1/gids/%d", device, index);
	if (type)
		put(type, "/sys/class/infiniband/%s/ports/1/gid_attrs/types/%d", device, index);
	if (netdev)
		put(netdev, "/sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/%d", device, index);
}

/* A card's netdev, or one without a card. */
static void put_netdev(const char *name, bool card)
{
	put("1500", "/sys/class/net/%s/mtu", name);
	if (card)
		put("0x15b3", "/sys/class/net/%s/device/vendor", name);
}

static int make_root(void **state)
{
	(void)state;
	strcpy(root, "/tmp/mrguard-gid-XXXXXX");
	unsetenv("MRGUARD_GID_INDEX");
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	char command[96];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

#endif
