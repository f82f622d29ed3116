/* SPDX-License-Identifier: MIT */
/* Whether the cap is there, was chosen for each boot, and which MRs are older than it. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/cap.h"

#define MODULE_DIR "/sys/module/mrguard_cap"
#define LIST_DIR "/run/mrguard-cap"
#define LIST LIST_DIR "/before"
#define UNIT "mrguard-cap.service"

bool host_cap_is_loaded(struct mrg_tree *tree)
{
	return host_tree_exists(tree, MODULE_DIR);
}

/* As `systemctl enable' and `mrguard cap on --boot' leave it, and not masked. */
bool host_cap_is_for_boot(struct mrg_tree *tree)
{
	static const char *const places[] = { "/etc/systemd/system/", "/run/systemd/system/" };
	char path[128], real[PATH_MAX];

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		snprintf(path, sizeof(path), "%s" UNIT, places[i]);
		if (!host_tree_real(tree, path, real, sizeof(real)) && !strcmp(real, "/dev/null"))
			return false;
	}
	return host_tree_exists(tree, "/etc/systemd/system/basic.target.wants/" UNIT);
}

/* In seconds since boot; 0 where it is not loaded, or does not say. */
static unsigned long long loaded_at(struct mrg_tree *tree)
{
	unsigned long long since;

	return host_tree_read_u64(tree, MODULE_DIR "/parameters/since", &since) ? 0 : since;
}

static int ask_mrs(void *arg, char *buf, size_t cap)
{
	size_t end;
	int ret;

	(void)arg;
	ret = host_cap_list(buf, cap);
	end = ret ? 0 : strlen(buf);
	if (end && buf[end - 1] == '\n')
		buf[end - 1] = 0;
	return ret;
}

/* The MRs that are there now, of a live host or as they were recorded. */
static ssize_t present(struct mrg_tree *tree, char *text, struct mrg_cap_mr **mrs)
{
	ssize_t n = host_tree_fact(tree, "mrs", text, HOST_TREE_MAX_FILE, ask_mrs, NULL);

	if (n == -ENOENT && !host_tree_is_live(tree))
		return -ENODATA;
	return n < 0 ? n : host_cap_parse(text, mrs);
}

static bool is_same(const struct mrg_cap_mr *a, const struct mrg_cap_mr *b)
{
	return !strcmp(a->device, b->device) && a->number == b->number && a->length == b->length &&
	       (!a->pid || !b->pid || (a->pid == b->pid && a->started == b->started));
}

static bool is_among(const struct mrg_cap_mr *mr, const struct mrg_cap_mr *list, ssize_t count)
{
	for (ssize_t i = 0; i < count; i++)
		if (is_same(mr, &list[i]))
			return true;
	return false;
}

/* A list counts only for the load of the cap that it was made for. */
static bool read_list(struct mrg_tree *tree, char *text, struct mrg_cap_mr **list, ssize_t *count)
{
	unsigned long long since;
	ssize_t n = host_tree_read(tree, LIST, text, HOST_TREE_MAX_FILE);

	if (n <= 0 || sscanf(text, "since %llu", &since) != 1 || since != loaded_at(tree))
		return false;
	*count = host_cap_parse(text + strcspn(text, "\n"), list);
	return *count >= 0;
}

/* Without a list: is the process older than the cap, or of an age that is not known? */
static bool may_be_older(const struct mrg_cap_mr *mr, unsigned long long since)
{
	return !mr->started || !since || mr->started / (unsigned long)sysconf(_SC_CLK_TCK) <= since;
}

/* Keeps those of @mrs that are, or may be, older than the cap. */
static ssize_t keep_old(struct mrg_tree *tree, char *text, struct mrg_cap_mr *mrs, ssize_t count)
{
	unsigned long long since = loaded_at(tree);
	struct mrg_cap_mr *list = NULL;
	ssize_t listed = 0, kept = 0;
	bool certain = read_list(tree, text, &list, &listed);

	for (ssize_t i = 0; i < count; i++) {
		if (certain ? !is_among(&mrs[i], list, listed) : !may_be_older(&mrs[i], since))
			continue;
		mrs[kept] = mrs[i];
		mrs[kept].certain = certain && mrs[kept].length;
		kept++;
	}
	free(list);
	return kept;
}

ssize_t host_cap_before(struct mrg_tree *tree, struct mrg_cap_mr **out)
{
	struct mrg_cap_mr *mrs = NULL;
	char *text;
	ssize_t n;

	if (!host_cap_is_loaded(tree))
		return -ENOENT;
	text = malloc(HOST_TREE_MAX_FILE);
	if (!text)
		return -ENOMEM;
	n = present(tree, text, &mrs);
	if (n > 0)
		n = keep_old(tree, text, mrs, n);
	free(text);
	if (n < 0)
		return n;
	*out = mrs;
	return n;
}

static struct mrg_tree *open_host(void)
{
	struct mrg_tree *tree;

	return host_tree_open(&tree, NULL, NULL) ? NULL : tree;
}

bool mrg_cap_is_loaded(void)
{
	return !access(MODULE_DIR, F_OK);
}

bool mrg_cap_is_for_boot(void)
{
	struct mrg_tree *tree = open_host();
	bool answer = tree && host_cap_is_for_boot(tree);

	host_tree_close(tree);
	return answer;
}

ssize_t mrg_cap_before(struct mrg_cap_mr **mrs)
{
	struct mrg_tree *tree = open_host();
	ssize_t n = tree ? host_cap_before(tree, mrs) : -ENOMEM;

	host_tree_close(tree);
	return n;
}

/* In one step, so that a reader never sees half of it. */
static int write_list(unsigned long long since, const char *text)
{
	FILE *file;
	int ret = 0;

	if (mkdir(LIST_DIR, 0755) && errno != EEXIST)
		return -errno;
	file = fopen(LIST ".new", "we");
	if (!file)
		return -errno;
	if (fprintf(file, "since %llu\n%s", since, text) < 0)
		ret = -EIO;
	if (fclose(file) || rename(LIST ".new", LIST))
		ret = -errno;
	if (ret)
		unlink(LIST ".new");
	return ret;
}

static ssize_t record(struct mrg_tree *tree, char *text)
{
	struct mrg_cap_mr *mrs = NULL;
	ssize_t count;
	int ret;

	if (!loaded_at(tree))
		return -ENOENT;
	ret = host_cap_list(text, HOST_TREE_MAX_FILE);
	if (!ret)
		ret = write_list(loaded_at(tree), text);
	if (ret)
		return ret;
	count = host_cap_parse(text, &mrs);
	free(mrs);
	return count;
}

ssize_t mrg_cap_record(void)
{
	struct mrg_tree *tree = open_host();
	char *text = malloc(HOST_TREE_MAX_FILE);
	ssize_t n = tree && text ? record(tree, text) : -ENOMEM;

	free(text);
	host_tree_close(tree);
	return n;
}
