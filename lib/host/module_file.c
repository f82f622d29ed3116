/* SPDX-License-Identifier: MIT */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "host/module_file.h"

#define MAX_ID 256 /* bytes of a build id's note; a SHA-1 makes 36 */
#define ID_NOTE ".note.gnu.build-id"

struct image {
	const unsigned char *bytes;
	size_t size;
	const Elf64_Shdr *sections;
	size_t count;
};

bool host_module_in_tree(const char *sysfs, const char *module)
{
	char path[PATH_MAX], taint[32];
	FILE *file;
	bool known;

	snprintf(path, sizeof(path), "%s/module/%s/taint", sysfs, module);
	file = fopen(path, "re");
	if (!file)
		return false;
	known = fgets(taint, sizeof(taint), file) != NULL;
	fclose(file);
	/* 'O' is TAINT_OOT_MODULE. */
	return known && !strchr(taint, 'O');
}

/* Of "updates/dkms/mlx5_ib.ko.xz: ..." the name, in which '-' and '_' are one. */
static bool names_module(const char *line, size_t len, const char *module)
{
	const char *slash = memrchr(line, '/', len);
	const char *at = slash ? slash + 1 : line, *end = line + len;

	for (; at < end && *module; at++, module++)
		if ((*at == '-' ? '_' : *at) != *module)
			return false;
	return !*module && end - at >= 3 && !strncmp(at, ".ko", 3);
}

/* The file that modprobe would load, by modules.dep. */
static int find_file(const char *sysfs, const char *module, char *path, size_t size)
{
	char dir[PATH_MAX / 2], dep[PATH_MAX], *line = NULL;
	struct utsname host;
	size_t room = 0;
	int ret = -ENOENT;
	FILE *file;

	uname(&host);
	snprintf(dir, sizeof(dir), "%s/../lib/modules/%s", sysfs, host.release);
	snprintf(dep, sizeof(dep), "%s/modules.dep", dir);
	file = fopen(dep, "re");
	if (!file)
		return -errno;
	while (ret && getline(&line, &room, file) > 0) {
		size_t len = strcspn(line, ":");

		if (!names_module(line, len, module))
			continue;
		line[len] = '\0';
		/* A path of depmod -b, or of weak-updates, can be absolute. */
		snprintf(path, size, "%s%s%s", *line == '/' ? "" : dir, *line == '/' ? "" : "/",
			 line);
		ret = 0;
	}
	free(line);
	fclose(file);
	return ret;
}

static int map_file(const char *path, struct image *image)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret = 0;
	void *bytes = MAP_FAILED;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr))
		ret = -ENOEXEC;
	if (!ret)
		bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (!ret && bytes == MAP_FAILED)
		ret = -errno;
	close(fd);
	if (ret)
		return ret;
	image->bytes = bytes;
	image->size = (size_t)st.st_size;
	return 0;
}

static bool fits(const struct image *image, uint64_t offset, uint64_t size)
{
	return offset <= image->size && size <= image->size - offset;
}

/* Whatever is no relocatable file of this machine's byte order, compressed ones too. */
static int read_sections(struct image *image)
{
	const Elf64_Ehdr *head = (const void *)image->bytes;

	if (memcmp(head->e_ident, ELFMAG, SELFMAG) || head->e_ident[EI_CLASS] != ELFCLASS64 ||
	    head->e_ident[EI_DATA] !=
		    (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB) ||
	    head->e_shentsize != sizeof(Elf64_Shdr) || head->e_shoff % 8 ||
	    !fits(image, head->e_shoff, head->e_shnum * sizeof(Elf64_Shdr)))
		return -ENOEXEC;
	image->sections = (const void *)(image->bytes + head->e_shoff);
	image->count = head->e_shnum;
	for (size_t i = 0; i < image->count; i++)
		if (image->sections[i].sh_type != SHT_NOBITS &&
		    (!fits(image, image->sections[i].sh_offset, image->sections[i].sh_size) ||
		     image->sections[i].sh_link >= image->count))
			return -ENOEXEC;
	return 0;
}

/* sysfs shows the note as the file has it. */
static bool holds_note(const struct image *image, const unsigned char *note, size_t size)
{
	for (size_t i = 0; i < image->count; i++)
		if (image->sections[i].sh_type == SHT_NOTE && image->sections[i].sh_size == size &&
		    !memcmp(image->bytes + image->sections[i].sh_offset, note, size))
			return true;
	return false;
}

static int check_loaded(const struct image *image, const char *sysfs, const char *module)
{
	unsigned char note[MAX_ID];
	char path[PATH_MAX];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "%s/module/%s/notes/" ID_NOTE, sysfs, module);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = read(fd, note, sizeof(note));
	close(fd);
	return got > 0 && holds_note(image, note, (size_t)got) ? 0 : -ESTALE;
}

static bool lists_import(const struct image *image, const Elf64_Shdr *table, const char *symbol)
{
	const Elf64_Shdr *names = &image->sections[table->sh_link];
	const char *text = (const char *)image->bytes + names->sh_offset;
	const Elf64_Sym *sym = (const void *)(image->bytes + table->sh_offset);
	size_t len = strlen(symbol) + 1;

	if (names->sh_type != SHT_STRTAB || table->sh_offset % 8)
		return false;
	for (size_t i = 0; i < table->sh_size / sizeof(*sym); i++)
		if (sym[i].st_shndx == SHN_UNDEF && len <= names->sh_size &&
		    sym[i].st_name <= names->sh_size - len &&
		    !memcmp(text + sym[i].st_name, symbol, len))
			return true;
	return false;
}

static int find_import(const struct image *image, const char *symbol)
{
	bool has_symbols = false;

	for (size_t i = 0; i < image->count; i++) {
		if (image->sections[i].sh_type != SHT_SYMTAB)
			continue;
		has_symbols = true;
		if (lists_import(image, &image->sections[i], symbol))
			return 1;
	}
	return has_symbols ? 0 : -ENOEXEC;
}

int host_module_imports(const char *sysfs, const char *module, const char *symbol)
{
	struct image image = { 0 };
	char path[PATH_MAX];
	int ret = find_file(sysfs, module, path, sizeof(path));

	if (!ret)
		ret = map_file(path, &image);
	if (ret)
		return ret;
	ret = read_sections(&image);
	if (!ret)
		ret = check_loaded(&image, sysfs, module);
	if (!ret)
		ret = find_import(&image, symbol);
	munmap((void *)image.bytes, image.size);
	return ret;
}
