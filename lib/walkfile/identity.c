/* SPDX-License-Identifier: MIT */
/* What /sys tells of a loaded module: which file it was, and what became of it. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "walkfile/walkfile.h"

static ssize_t read_file(const char *root, const char *module, const char *name, void *buffer,
			 size_t room)
{
	char path[PATH_MAX];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/sys/module/%s/%s", root, module, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, buffer, room);
	close(fd);
	return n;
}

#define NOTE_HEAD 16 /* three lengths and "GNU" */

void walkfile_loaded(const struct walkfile_host *host, const char *module,
		     struct walkfile_identity *identity)
{
	uint8_t note[NOTE_HEAD + 39];
	char state[16], *version = identity->srcversion;
	ssize_t n = read_file(host->root, module, "notes/.note.gnu.build-id", note, sizeof(note));

	memset(identity, 0, sizeof(*identity));
	/* What is part of the kernel's image has no state. */
	identity->loaded = read_file(host->root, module, "initstate", state, sizeof(state)) > 0;
	for (ssize_t i = NOTE_HEAD; i < n; i++)
		sprintf(identity->build_id + 2 * (i - NOTE_HEAD), "%02x", note[i]);
	n = read_file(host->root, module, "srcversion", version, sizeof(identity->srcversion) - 1);
	version[n > 0 ? n : 0] = 0;
	version[strcspn(version, " \n")] = 0;
}

/* /sys/kernel/livepatch/PATCH/OBJECT/FUNCTION,N, by sysfs-kernel-livepatch of the kernel's
 * Documentation/ABI/testing */
const char *walkfile_patched(const struct walkfile_host *host, const char *module,
			     const char *function)
{
	static const char *const kinds[] = { "livepatch", "kpatch" };
	char path[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && !found; i++) {
		snprintf(path, sizeof(path), "%s/sys/kernel/%s", host->root, kinds[i]);
		dir = opendir(path);
		while (dir && !found && (entry = readdir(dir))) {
			snprintf(path, sizeof(path), "%s/sys/kernel/%s/%.200s/%s/%s,1", host->root,
				 kinds[i], entry->d_name, module, function);
			found = !access(path, F_OK);
		}
		if (dir)
			closedir(dir);
	}
	return found ? "A live patch replaces the function in the running kernel." : NULL;
}
