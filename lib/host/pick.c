/* SPDX-License-Identifier: MIT */
/*
 * mrguard_cap.ko caps ib_umem_find_best_pgsz().  Drivers of the kernel's own
 * tree take large pages from that function alone.  Drivers from elsewhere can
 * carry a copy of it, under any name; such a module does not import the
 * kernel's, which its file tells.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/module_file.h"
#include "host/pick.h"

#define PICK "ib_umem_find_best_pgsz"
#define MAX_MODULE_NAME 64 /* of the kernel: MODULE_NAME_LEN */

const char *mrg_pick_name(enum mrg_pick pick)
{
	static const char *const names[] = {
		[MRG_PICK_UNKNOWN] = "unknown",
		[MRG_PICK_KERNEL] = "kernel",
		[MRG_PICK_OWN] = "own",
	};

	return (size_t)pick < sizeof(names) / sizeof(names[0]) ? names[pick] : "unknown";
}

/* What is known of the modules that were met so far. */
struct drivers {
	const char *sysfs;
	bool any;
	enum mrg_pick pick;
};

static enum mrg_pick pick_of(const char *sysfs, const char *module)
{
	int imports = host_module_in_tree(sysfs, module) ? 1 :
							   host_module_imports(sysfs, module, PICK);

	if (imports < 0)
		return MRG_PICK_UNKNOWN;
	return imports ? MRG_PICK_KERNEL : MRG_PICK_OWN;
}

/* The driver of @dir, where it is one of the RDMA core's users. */
static void add_driver(struct drivers *drivers, const char *dir)
{
	char path[PATH_MAX + 16], target[PATH_MAX];
	const char *module;
	enum mrg_pick pick;
	ssize_t len;

	snprintf(path, sizeof(path), "%s/driver/module", dir);
	len = readlink(path, target, sizeof(target) - 1);
	if (len <= 0)
		return;
	target[len] = '\0';
	module = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
	if (strlen(module) >= MAX_MODULE_NAME)
		return;
	snprintf(path, sizeof(path), "%s/module/ib_core/holders/%.64s", drivers->sysfs, module);
	if (access(path, F_OK))
		return;
	pick = pick_of(drivers->sysfs, module);
	if (!drivers->any)
		drivers->pick = pick;
	else if (drivers->pick != pick)
		drivers->pick = MRG_PICK_UNKNOWN;
	drivers->any = true;
}

/* The device's own driver, and those of the auxiliary devices below it: mlx5_core
 * drives the function, and mlx5_ib its "mlx5_core.rdma.0". */
static void add_drivers(struct drivers *drivers, const char *dir)
{
	char path[PATH_MAX];
	const struct dirent *entry;
	DIR *list = opendir(dir);

	if (!list)
		return;
	add_driver(drivers, dir);
	while ((entry = readdir(list))) {
		/* A link leads to another device. */
		if (entry->d_name[0] == '.' || entry->d_type == DT_LNK)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		add_driver(drivers, path);
	}
	closedir(list);
}

enum mrg_pick host_pick_read(const char *sysfs, const char *name)
{
	struct drivers drivers = { .sysfs = sysfs };
	char dir[PATH_MAX / 4];

	snprintf(dir, sizeof(dir), "%s/class/infiniband/%s/device", sysfs, name);
	add_drivers(&drivers, dir);
	return drivers.pick;
}
