/* SPDX-License-Identifier: MIT */
/* Answers kept until the next boot, so that a host is asked once. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "walkfile/walkfile.h"

#define FOLDER "/run/mrguard"

static void path_of(const struct walkfile_host *host, const char *build_id, char *path, size_t room)
{
	snprintf(path, room, "%s" FOLDER "/walk.%s", host->root, build_id);
}

/* Root believes nobody else, and a user believes root and himself. */
static bool is_ours(const struct stat *st)
{
	return (!st->st_uid || st->st_uid == geteuid()) && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

static bool is_trusted(const struct walkfile_host *host, const struct stat *file)
{
	char path[PATH_MAX];
	struct stat folder;

	snprintf(path, sizeof(path), "%s" FOLDER, host->root);
	return !lstat(path, &folder) && S_ISDIR(folder.st_mode) && S_ISREG(file->st_mode) &&
	       is_ours(&folder) && is_ours(file);
}

bool walkfile_recall(const struct walkfile_host *host, const char *build_id, char *text)
{
	char path[PATH_MAX];
	struct stat st;
	ssize_t n = -1;
	int fd;

	if (!build_id[0])
		return false;
	path_of(host, build_id, path, sizeof(path));
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (!fstat(fd, &st) && is_trusted(host, &st))
		n = read(fd, text, WALKFILE_TEXT - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

void walkfile_keep(const struct walkfile_host *host, const char *build_id, const char *text)
{
	char path[PATH_MAX], temporary[PATH_MAX + 16];
	size_t length = strlen(text);
	bool whole;
	int fd;

	if (!build_id[0])
		return;
	snprintf(path, sizeof(path), "%s" FOLDER, host->root);
	mkdir(path, 0755);
	path_of(host, build_id, path, sizeof(path));
	snprintf(temporary, sizeof(temporary), "%s.%d", path, getpid());
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	whole = write(fd, text, length) == (ssize_t)length;
	close(fd);
	if (!whole || rename(temporary, path))
		unlink(temporary);
}
