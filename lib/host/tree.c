/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/grow.h"
#include "host/tree.h"

#define MAX_LINKS 40 /* as many as the kernel follows */

struct mrg_tree {
	int root;
	int dump; /* -1 where nothing is recorded */
	bool live;
	bool lost; /* a reading, for want of memory */
	char *denied; /* what a recorded tree says could not be read */
	size_t denied_len;
	char real[PATH_MAX]; /* of the root, "" for "/" */
};

static int open_below(const struct mrg_tree *t, const char *path, int flags)
{
	/* openat2 refuses O_PATH together with flags that it would ignore. */
	struct open_how how = {
		.flags = (unsigned int)flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	long fd = -1;

	/*
	 * Nothing lies outside the running host's root.  systemd refuses openat2() with
	 * ENOSYS where a unit has RestrictSUIDSGID=, which DynamicUser= implies.
	 */
	if (t->live)
		fd = open(path, flags | O_CLOEXEC | O_NOCTTY);
	/* EAGAIN: something was renamed meanwhile, and ".." may lead elsewhere. */
	for (int tries = 0; !t->live && tries < 100; tries++) {
		fd = syscall(SYS_openat2, t->root, path, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	return fd < 0 ? -errno : (int)fd;
}

static int real_of(int fd, char *buf, size_t cap)
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, buf, cap);
	if (n < 0)
		return -errno;
	if ((size_t)n >= cap)
		return -ENAMETOOLONG;
	buf[n] = 0;
	return 0;
}

static ssize_t read_all(int fd, char *buf, size_t cap)
{
	size_t have = 0;

	while (have < cap) {
		ssize_t n = read(fd, buf + have, cap - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

static ssize_t read_regular(const struct mrg_tree *t, const char *path, void *buf, size_t cap)
{
	int fd = open_below(t, path, O_RDONLY | O_NONBLOCK);
	struct stat st;
	ssize_t n = -EBADF;

	if (fd < 0)
		return fd;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		n = read_all(fd, buf, cap < HOST_TREE_MAX_FILE ? cap : HOST_TREE_MAX_FILE);
	close(fd);
	return n;
}

static int load_denied(struct mrg_tree *t)
{
	ssize_t n;

	if (t->live)
		return 0;
	t->denied = malloc(HOST_TREE_MAX_FILE);
	if (!t->denied)
		return -ENOMEM;
	n = read_regular(t, ".mrguard/denied", t->denied, HOST_TREE_MAX_FILE);
	if (n == -ENOMEM) {
		free(t->denied);
		return (int)n;
	}
	t->denied_len = n > 0 ? (size_t)n : 0;
	return 0;
}

/* What lies there already would be overwritten, or be taken for the host's. */
static int open_empty(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int fd;

	if (!dir)
		return -errno;
	do {
		errno = 0;
		entry = readdir(dir);
	} while (entry && (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")));
	if (entry)
		errno = ENOTEMPTY;
	fd = errno ? -1 : fcntl(dirfd(dir), F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		fd = -errno;
	closedir(dir);
	return fd;
}

int host_tree_open(struct mrg_tree **tree, const char *root, const char *dump)
{
	struct mrg_tree *t = calloc(1, sizeof(*t));
	int rc = -ENOMEM;

	if (!t)
		return rc;
	t->dump = -1;
	t->live = !root || !strcmp(root, "/");
	t->root = open(root ? root : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->root < 0) {
		rc = -errno;
		goto free_tree;
	}
	rc = real_of(t->root, t->real, sizeof(t->real));
	if (rc)
		goto close_root;
	if (!strcmp(t->real, "/"))
		t->real[0] = 0;
	if (dump) {
		t->dump = open_empty(dump);
		if (t->dump < 0) {
			rc = t->dump;
			goto close_root;
		}
	}
	rc = load_denied(t);
	if (rc)
		goto close_dump;
	*tree = t;
	return 0;

close_dump:
	if (t->dump >= 0)
		close(t->dump);
close_root:
	close(t->root);
free_tree:
	free(t);
	return rc;
}

void host_tree_close(struct mrg_tree *t)
{
	if (!t)
		return;
	close(t->root);
	if (t->dump >= 0)
		close(t->dump);
	free(t->denied);
	free(t);
}

bool host_tree_is_live(const struct mrg_tree *t)
{
	return t->live;
}

bool host_tree_lost(struct mrg_tree *t)
{
	bool lost = t->lost;

	t->lost = false;
	return lost;
}

static ssize_t note(struct mrg_tree *t, ssize_t rc)
{
	t->lost |= rc == -ENOMEM;
	return rc;
}

/*
 * Repeats in the dump every directory and link on the way to @path, so that
 * the same path leads to the same place there.  @done gets the final place.
 */
static void record_way(struct mrg_tree *t, const char *path, char *done, size_t cap)
{
	char todo[2 * PATH_MAX], target[PATH_MAX], step[NAME_MAX + 1];
	int links = 0;

	snprintf(todo, sizeof(todo), "%s", path);
	done[0] = 0;
	while (todo[0]) {
		char *at = todo + strspn(todo, "/");
		size_t len = strcspn(at, "/"), used = strlen(done);
		char rest[2 * PATH_MAX];
		ssize_t n;

		if (!len || len >= sizeof(step) || used + len + 2 > cap)
			return;
		snprintf(step, sizeof(step), "%.*s", (int)len, at);
		snprintf(rest, sizeof(rest), "%s", at + len);
		if (!strcmp(step, "..")) {
			char *slash = strrchr(done, '/');

			if (slash)
				*slash = 0;
			else
				done[0] = 0;
			snprintf(todo, sizeof(todo), "%s", rest);
			continue;
		}
		snprintf(done + used, cap - used, "%s%s", used ? "/" : "", step);
		n = readlinkat(t->root, done, target, sizeof(target) - 1);
		if (n > 0 && ++links <= MAX_LINKS) {
			target[n] = 0;
			(void)!symlinkat(target, t->dump, done);
			done[target[0] == '/' ? 0 : used] = 0;
			if (strlen(target) + strlen(rest) >= sizeof(todo))
				return;
			stpcpy(stpcpy(todo, target), rest);
			continue;
		}
		if (rest[strspn(rest, "/")])
			mkdirat(t->dump, done, 0755);
		snprintf(todo, sizeof(todo), "%s", rest);
	}
}

static void record_file(struct mrg_tree *t, const char *path, const void *data, size_t len)
{
	char place[PATH_MAX];
	int fd;

	if (t->dump < 0)
		return;
	record_way(t, path, place, sizeof(place));
	fd = openat(t->dump, place, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return;
	(void)!write(fd, data, len);
	close(fd);
}

/* A file that could not be read for want of rights is recorded as an errno,
 * or the replay would say "not there". */
static void record_denied(struct mrg_tree *t, const char *path)
{
	int fd;

	if (t->dump < 0)
		return;
	mkdirat(t->dump, ".mrguard", 0755);
	fd = openat(t->dump, ".mrguard/denied", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	dprintf(fd, "%s\n", path);
	close(fd);
}

static bool was_denied(const struct mrg_tree *t, const char *path)
{
	const char *at = t->denied, *end;
	size_t len = strlen(path);

	if (!at)
		return false;
	end = at + t->denied_len;
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t n = (size_t)((newline ? newline : end) - at);

		if (n == len && !memcmp(at, path, n))
			return true;
		at += n + (newline ? 1 : 0);
	}
	return false;
}

ssize_t host_tree_read_raw(struct mrg_tree *t, const char *path, void *buf, size_t cap)
{
	ssize_t n;

	if (was_denied(t, path))
		return -EACCES;
	n = note(t, read_regular(t, path, buf, cap));
	if (n == -EACCES || n == -EPERM) {
		record_denied(t, path);
		return -EACCES;
	}
	if (n >= 0)
		record_file(t, path, buf, (size_t)n);
	return n;
}

ssize_t host_tree_read(struct mrg_tree *t, const char *path, char *buf, size_t cap)
{
	ssize_t n = host_tree_read_raw(t, path, buf, cap - 1);

	if (n < 0)
		return n;
	for (ssize_t i = 0; i < n; i++)
		if (!buf[i])
			buf[i] = ' ';
	while (n && strchr(" \t\r\n", buf[n - 1]))
		n--;
	buf[n] = 0;
	return n;
}

int host_tree_read_u64(struct mrg_tree *t, const char *path, unsigned long long *value)
{
	char buf[64], *end;
	ssize_t n = host_tree_read(t, path, buf, sizeof(buf));
	unsigned long long v;

	if (n < 0)
		return (int)n;
	if (!n || buf[0] == '-')
		return -EINVAL;
	errno = 0;
	v = strtoull(buf, &end, 0);
	if (errno || *end)
		return -EINVAL;
	*value = v;
	return 0;
}

int host_tree_real(struct mrg_tree *t, const char *path, char *buf, size_t cap)
{
	char full[PATH_MAX], place[PATH_MAX];
	size_t skip = strlen(t->real);
	int fd = open_below(t, path, O_PATH), rc;

	if (fd < 0)
		return (int)note(t, fd);
	rc = real_of(fd, full, sizeof(full));
	close(fd);
	if (rc)
		return rc;
	if (strncmp(full, t->real, skip))
		return -EXDEV;
	if (strlen(full + skip) >= cap)
		return -ENAMETOOLONG;
	strcpy(buf, full + skip);
	if (t->dump >= 0) {
		record_way(t, path, place, sizeof(place));
		mkdirat(t->dump, place, 0755);
	}
	return 0;
}

bool host_tree_exists(struct mrg_tree *t, const char *path)
{
	char real[PATH_MAX];

	return !host_tree_real(t, path, real, sizeof(real));
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static ssize_t read_names(DIR *dir, char ***names)
{
	size_t count = 0, cap = 0;
	char **list = NULL, **more;
	struct dirent *e;

	while (count < HOST_TREE_MAX_NAMES && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		more = base_grow(list, &cap, count, sizeof(*list));
		if (!more)
			goto no_memory;
		list = more;
		list[count] = strdup(e->d_name);
		if (!list[count])
			goto no_memory;
		count++;
	}
	if (count)
		qsort(list, count, sizeof(*list), by_name);
	*names = list;
	return (ssize_t)count;

no_memory:
	host_tree_free_names(list, (ssize_t)count);
	return -ENOMEM;
}

/* A listing is repeated with the entries that lead on: directories and links. */
static void record_names(struct mrg_tree *t, const char *path, char **names, ssize_t count)
{
	char entry[PATH_MAX], place[PATH_MAX];
	struct stat st;

	record_way(t, path, place, sizeof(place));
	mkdirat(t->dump, place, 0755);
	for (ssize_t i = 0; i < count; i++) {
		if ((size_t)snprintf(entry, sizeof(entry), "%s/%s", path, names[i]) >=
		    sizeof(entry))
			continue;
		if (fstatat(t->root, entry + strspn(entry, "/"), &st, 0) || !S_ISDIR(st.st_mode))
			continue;
		record_way(t, entry, place, sizeof(place));
		mkdirat(t->dump, place, 0755);
	}
}

ssize_t host_tree_list(struct mrg_tree *t, const char *path, char ***names)
{
	int fd = open_below(t, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
	ssize_t n;
	DIR *dir;

	if (fd < 0)
		return note(t, fd);
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return note(t, -ENOMEM);
	}
	n = note(t, read_names(dir, names));
	closedir(dir);
	if (t->dump >= 0 && n >= 0)
		record_names(t, path, *names, n);
	return n;
}

void host_tree_free_names(char **names, ssize_t count)
{
	for (ssize_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

/* Anything may stand there in place of a number. */
static ssize_t recorded_errno(const char *text)
{
	long number = strtol(text, NULL, 10);

	return number > 0 && number < 4096 ? -number : -EINVAL;
}

ssize_t host_tree_fact(struct mrg_tree *t, const char *name, char *buf, size_t cap,
		       int (*ask)(void *arg, char *buf, size_t cap), void *arg)
{
	char path[NAME_MAX];
	int rc, fd;

	snprintf(path, sizeof(path), ".mrguard/%s", name);
	if (!t->live) {
		ssize_t n = host_tree_read(t, path, buf, cap);

		if (n > 6 && !strncmp(buf, "errno ", 6))
			return recorded_errno(buf + 6);
		return n;
	}
	rc = ask(arg, buf, cap);
	if (t->dump >= 0) {
		mkdirat(t->dump, ".mrguard", 0755);
		fd = openat(t->dump, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		if (fd >= 0) {
			if (rc)
				dprintf(fd, "errno %d\n", -rc);
			else
				dprintf(fd, "%s\n", buf);
			close(fd);
		}
	}
	return rc ? rc : (ssize_t)strlen(buf);
}
