/* SPDX-License-Identifier: MIT */
/* Where a module's file lies. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "walkfile/walkfile.h"

/* "kernel/drivers/infiniband/core/ib_core.ko.xz: ..." -> whether it is @module's */
static bool is_line_of(const char *line, const char *module)
{
	const char *colon = strchr(line, ':'), *name = colon;
	size_t length = strlen(module);

	while (name && name > line && name[-1] != '/')
		name--;
	return name && !strncmp(name, module, length) && !strncmp(name + length, ".ko", 3);
}

/* The file that modprobe would load: depmod names each module once. */
static bool from_modules_dep(const struct walkfile_host *host, const char *module, char *path,
			     size_t room)
{
	char folder[PATH_MAX], dep[PATH_MAX + 16], *line = NULL;
	bool found = false;
	size_t size = 0;
	FILE *file;

	snprintf(folder, sizeof(folder), "%s/lib/modules/%s", host->root, host->release);
	snprintf(dep, sizeof(dep), "%s/modules.dep", folder);
	file = fopen(dep, "re");
	while (file && !found && getline(&line, &size, file) > 0) {
		found = is_line_of(line, module);
		if (!found)
			continue;
		line[strcspn(line, ":")] = 0;
		if (line[0] == '/')
			snprintf(path, room, "%s%s", host->root, line);
		else
			snprintf(path, room, "%s/%s", folder, line);
	}
	free(line);
	if (file)
		fclose(file);
	return found;
}

/* Where else it may have been loaded from: before a vendor's was installed, or
 * removed, or by an initramfs that is older than modules.dep. */
static const char *const folders[] = {
	"updates/dkms",
	"updates/drivers/infiniband/core",
	"updates",
	"extra/mlnx-ofa_kernel/drivers/infiniband/core",
	"extra",
	"weak-updates/mlnx-ofa_kernel/drivers/infiniband/core",
	"kernel/drivers/infiniband/core",
};
static const char *const ends[] = { "", ".xz", ".zst", ".gz" };
#define ENDS (sizeof(ends) / sizeof(ends[0]))
#define PLACES (ENDS * sizeof(folders) / sizeof(folders[0]))

bool walkfile_place(const struct walkfile_host *host, const char *module, size_t n, char *path,
		    size_t room)
{
	size_t skip = n;

	if (from_modules_dep(host, module, path, room) && !skip--)
		return true;
	for (size_t i = 0; i < PLACES; i++) {
		snprintf(path, room, "%s/lib/modules/%s/%s/%s.ko%s", host->root, host->release,
			 folders[i / ENDS], module, ends[i % ENDS]);
		if (!access(path, R_OK) && !skip--)
			return true;
	}
	return false;
}
