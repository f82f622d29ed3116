/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "walkfile/walkfile.h"

#define WALK_FUNCTION "__rdma_block_iter_next"
#define PICK_FUNCTION "ib_umem_find_best_pgsz"

__attribute__((format(printf, 2, 3))) static bool unknown(struct mrg_walk_answer *answer,
							  const char *format, ...)
{
	va_list args;

	answer->walk = MRG_WALK_UNKNOWN;
	va_start(args, format);
	vsnprintf(answer->why, sizeof(answer->why), format, args);
	va_end(args);
	return false;
}

/* Runs the program on @path.  Return: 0, with an answer that may be unknown; -errno of open(2). */
static int ask_path(const struct walkfile_host *host, const char *path,
		    struct mrg_walk_answer *answer, char *text)
{
	char btf_path[PATH_MAX];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), btf, ret;

	if (fd < 0)
		return -errno;
	snprintf(answer->file, sizeof(answer->file), "%s", path);
	snprintf(btf_path, sizeof(btf_path), "%s/sys/kernel/btf/vmlinux", host->root);
	btf = open(btf_path, O_RDONLY | O_CLOEXEC);
	ret = walkfile_start(fd, btf, text);
	if (ret)
		unknown(answer, "The program mrguard-kernelcode cannot be started: %s.",
			strerror(-ret));
	else if (!walkfile_read(text, answer))
		unknown(answer, "The program that runs the function was stopped.");
	close(fd);
	if (btf >= 0)
		close(btf);
	return 0;
}

static bool is_of(const struct walkfile_identity *loaded, const char *text)
{
	char value[80];

	if (loaded->build_id[0])
		return walkfile_value(text, "build-id", value, sizeof(value)) &&
		       !strcmp(value, loaded->build_id);
	return loaded->srcversion[0] && walkfile_value(text, "srcversion", value, sizeof(value)) &&
	       !strcmp(value, loaded->srcversion);
}

/* Asks the file of a loaded module, or what was kept of it.  false: @answer says why. */
static bool ask_module(const struct walkfile_host *host, const char *module,
		       struct mrg_walk_answer *answer, char *text)
{
	struct walkfile_identity loaded;
	char path[PATH_MAX], other[256] = "";

	walkfile_loaded(host, module, &loaded);
	if (!loaded.loaded)
		return unknown(answer,
			       "The module %s is not loaded, or is part of the kernel's image.",
			       module);
	if (!loaded.build_id[0] && !loaded.srcversion[0])
		return unknown(answer, "The loaded %s has neither build id nor srcversion.",
			       module);
	if (walkfile_recall(host, loaded.build_id, text) && is_of(&loaded, text) &&
	    walkfile_read(text, answer)) {
		walkfile_value(text, "file", answer->file, sizeof(answer->file));
		return true;
	}
	for (size_t n = 0; walkfile_place(host, module, n, path, sizeof(path)); n++) {
		if (ask_path(host, path, answer, text))
			continue;
		if (is_of(&loaded, text)) {
			snprintf(text + strlen(text), WALKFILE_TEXT - strlen(text), "file %s\n",
				 answer->file);
			walkfile_keep(host, loaded.build_id, text);
			return true;
		}
		snprintf(other, sizeof(other), "%.200s", path);
		memset(answer, 0, sizeof(*answer));
	}
	text[0] = 0;
	if (other[0])
		return unknown(answer, "The file %.150s is not that of the loaded %s.", other,
			       module);
	return unknown(answer, "The file of %s is not in /lib/modules/%.100s.", module,
		       host->release);
}

/* Since 7.1 ib_core has the pick, before ib_uverbs. */
static void ask_pick(const struct walkfile_host *host, struct mrg_walk_answer *answer, char *text)
{
	struct mrg_walk_answer other = { 0 };

	if (!answer->pick_shift && ask_module(host, "ib_uverbs", &other, text))
		answer->pick_shift = other.pick_shift;
	if (walkfile_patched(host, "ib_core", PICK_FUNCTION) ||
	    walkfile_patched(host, "ib_uverbs", PICK_FUNCTION))
		answer->pick_shift = 0;
}

void walkfile_ask_host(const struct walkfile_host *host, struct mrg_walk_answer *answer, char *text)
{
	char *room = malloc(2 * WALKFILE_TEXT);
	const char *patched;

	memset(answer, 0, sizeof(*answer));
	if (text)
		text[0] = 0;
	if (!room) {
		unknown(answer, "There is no memory to ask for it.");
		return;
	}
	if (ask_module(host, "ib_core", answer, room)) {
		if (text)
			memcpy(text, room, WALKFILE_TEXT);
		ask_pick(host, answer, room + WALKFILE_TEXT);
		patched = walkfile_patched(host, "ib_core", WALK_FUNCTION);
		if (patched)
			unknown(answer, "%s", patched);
	}
	free(room);
}

int mrg_walk_ask_host(struct mrg_walk_answer *answer)
{
	struct utsname name;
	struct walkfile_host host = { .root = "", .release = name.release };

	uname(&name);
	walkfile_ask_host(&host, answer, NULL);
	return 0;
}

int mrg_walk_ask_file(const char *path, struct mrg_walk_answer *answer)
{
	const struct walkfile_host host = { .root = "", .release = "" };
	struct mrg_walk_answer asked = { 0 };
	char *text = malloc(WALKFILE_TEXT);
	int ret;

	if (!text)
		return -ENOMEM;
	ret = ask_path(&host, path, &asked, text);
	if (!ret)
		*answer = asked;
	free(text);
	return ret;
}
