/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "share/owner.h"

#define STAGE "connect"
#define START_FIELD 22 /* of a stat file of /proc, counted from 1; the name is 2 */

static uint64_t inode(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : st.st_ino;
}

/* A mount of /proc may be of another PID namespace, and have other numbers. */
static bool proc_is_ours(void)
{
	char link[16];
	ssize_t length = readlink("/proc/self", link, sizeof(link) - 1);

	if (length <= 0)
		return false;
	link[length] = '\0';
	return atoi(link) == getpid();
}

/* 0: not known.  -EMFILE and the like: it could have been known. */
static int64_t start_of(pid_t pid)
{
	char path[48], line[1024] = "", *at;
	FILE *file;

	errno = 0;
	/* The first thread's, which is the process's.  qemu answers /proc/PID/stat itself, for the
	 * process that asks alone, with a time of its own. */
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)pid);
	file = proc_is_ours() ? fopen(path, "re") : NULL;
	if (!file)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -EMFILE : 0;
	line[fread(line, 1, sizeof(line) - 1, file)] = '\0';
	fclose(file);
	/* The name is in parentheses, and may have some itself. */
	at = strrchr(line, ')');
	for (int field = 2; at && field < START_FIELD; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoll(at, NULL, 10) : 0;
}

struct share_owner share_owner_self(void)
{
	int64_t start = start_of(getpid());

	return (struct share_owner){
		.uid = geteuid(),
		.userns = inode("/proc/self/ns/user"),
		.timens = inode("/proc/self/ns/time"),
		.start = start > 0 ? (uint64_t)start : 0,
	};
}

/* The kernel shows all users that have no number here as one, "nobody".
 * 1, 0 or -EMFILE. */
static int has_number(uid_t uid)
{
	FILE *file = fopen("/proc/self/uid_map", "re");
	uint64_t first, count;
	int found = 0;

	if (!file && errno != ENOENT)
		return -EMFILE;
	while (file && !found && fscanf(file, "%" SCNu64 " %*u %" SCNu64, &first, &count) == 2)
		found = uid >= first && uid - first < count;
	if (file)
		fclose(file);
	return found;
}

static int refuse_unnamed(uid_t uid, struct mrg_error *error)
{
	return base_error_set(
		error, -EACCES, STAGE,
		"Name the owner's uid, as it is seen here, with MRG_IMPORT_OWNER.",
		"The token comes from another user namespace, so its uid says nothing here about user %u, who answers at the owner's address.",
		(unsigned int)uid);
}

int share_owner_check_user(const struct share_owner *owner, uid_t uid, const uid_t *expected,
			   struct mrg_error *error)
{
	uint64_t userns = inode("/proc/self/ns/user");
	bool same = userns && userns == owner->userns;
	uid_t own = geteuid();
	int numbered;

	if (expected && uid == *expected)
		return 0;
	if (expected)
		return base_error_set(error, -EACCES, STAGE, "Get the owner's token anew.",
				      "User %u answers at the owner's address, not user %u.",
				      (unsigned int)uid, (unsigned int)*expected);
	numbered = has_number(uid);
	if (numbered < 0)
		return numbered;
	if (!numbered || (!same && uid != own))
		return refuse_unnamed(uid, error);
	if (same && uid != owner->uid)
		return base_error_set(
			error, -EACCES, STAGE, "Get the owner's token anew.",
			"User %u answers at the owner's address, and the token is of user %u.",
			(unsigned int)uid, owner->uid);
	/* A user has no say over another user's memory. */
	if (own && uid && uid != own)
		return base_error_set(
			error, -EACCES, STAGE,
			"Run both processes as the same user, or the importer as root.",
			"The owner runs as user %u, and this process as user %u.",
			(unsigned int)uid, (unsigned int)own);
	return 0;
}

int share_owner_is(const struct share_owner *owner, pid_t pid)
{
	int64_t start;

	if (!owner->start || owner->timens != inode("/proc/self/ns/time"))
		return 1;
	start = start_of(pid);
	return start < 0 ? (int)start : !start || (uint64_t)start == owner->start;
}
