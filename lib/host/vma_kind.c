/* SPDX-License-Identifier: MIT */
/* What kind of memory a VMA is, in a word that its likes share. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "host/vma_kind.h"

static bool starts_with(const char *text, const char *start)
{
	return !strncmp(text, start, strlen(start));
}

static size_t without_suffix(const char *text, const char *suffix)
{
	size_t len = strlen(text), cut = strlen(suffix);

	return len >= cut && !strcmp(text + len - cut, suffix) ? len - cut : len;
}

/* A process ID, a counter, a random number: what tells likes apart. */
static bool is_serial(const char *token, size_t len, char before)
{
	size_t digits = 0, hex = 0;

	for (size_t i = 0; i < len; i++) {
		digits += isdigit((unsigned char)token[i]) != 0;
		hex += isxdigit((unsigned char)token[i]) != 0;
	}
	if (digits == len)
		return len >= 4 || before == '_';
	return hex == len && digits && len >= 6;
}

/*
 * Copies a file's last name with serials as "*": "torch_4711_93_0" becomes
 * "torch_*".  Libraries keep their ".so.6".
 */
static void copy_pattern(const char *name, size_t len, char *out, size_t size)
{
	size_t used = 0, at = 0;

	while (at < len && used + 2 < size) {
		size_t token = 0;
		char before = at ? name[at - 1] : '\0';

		while (at + token < len && isalnum((unsigned char)name[at + token]))
			token++;
		if (!token) {
			out[used++] = name[at++];
		} else if (is_serial(name + at, token, before)) {
			if (used >= 2 && out[used - 2] == '*')
				used--;
			else
				out[used++] = '*';
			at += token;
		} else {
			while (token-- && used + 2 < size)
				out[used++] = name[at++];
		}
	}
	out[used] = '\0';
}

/* The end of a long path says more than its start. */
static void path_kind(const char *path, size_t len, char *kind, size_t size)
{
	const char *slash = memrchr(path, '/', len);
	size_t dir = slash ? (size_t)(slash - path) + 1 : 0;
	char last[HOST_TALLY_KIND];
	size_t skip;

	copy_pattern(path + dir, len - dir, last, sizeof(last) - 16);
	skip = dir + strlen(last) < size ? 0 : dir + strlen(last) + 4 - size;
	if (skip > dir)
		skip = dir;
	snprintf(kind, size, "%s%.*s%s", skip ? "..." : "", (int)(dir - skip), path + skip, last);
}

void host_vma_kind_name(const struct host_maps_vma *vma, char *kind, size_t size)
{
	const char *name = vma->name;
	size_t len = without_suffix(name, " (deleted)");

	if (vma->flags & HOST_MF_HUGETLB || starts_with(name, "/anon_hugepage"))
		snprintf(kind, size, "hugetlb");
	else if (!name[0])
		snprintf(kind, size, "anonymous");
	else if (name[0] == '[')
		/* The kernel's own: [heap], [stack], [vdso], [anon:NAME]. */
		copy_pattern(name + 1, without_suffix(name, "]") - 1, kind, size);
	else if (starts_with(name, "/dev/zero"))
		snprintf(kind, size, "shared anonymous");
	else if (starts_with(name, "/memfd:"))
		copy_pattern(name + 1, len - 1, kind, size);
	else
		path_kind(name, len, kind, size);
	base_make_plain(kind);
}
