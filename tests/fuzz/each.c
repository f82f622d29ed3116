/* SPDX-License-Identifier: MIT */
/*
 * each FOLDER: gives a fuzz target every file of its corpus, once.  For where
 * libFuzzer is not.  A rule that does not hold ends the program.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void give(const char *folder, const char *name)
{
	char path[4096];
	uint8_t *data;
	FILE *file;
	long size;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fprintf(stderr, "%s\n", path);
	file = fopen(path, "rb");
	if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0)
		abort();
	rewind(file);
	/* No byte more: a target that reads on is to fall over the end. */
	data = malloc((size_t)size);
	if ((size && !data) || fread(data, 1, (size_t)size, file) != (size_t)size)
		abort();
	fclose(file);
	LLVMFuzzerTestOneInput(data, (size_t)size);
	free(data);
}

int main(int argc, char **argv)
{
	DIR *dir = opendir(argc == 2 ? argv[1] : "");
	unsigned int count = 0;
	struct dirent *entry;

	if (!dir) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.') {
			give(argv[1], entry->d_name);
			count++;
		}
	closedir(dir);
	printf("1..1\n%sok 1 - each of %u inputs keeps all rules\n", count ? "" : "not ", count);
	return !count;
}
