/* SPDX-License-Identifier: MIT */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/run_loader.h"

#define MAX_SCRIPTS 4 /* as the kernel follows them */

static bool find_segment(int fd, uint32_t type, Elf64_Phdr *segment)
{
	Elf64_Ehdr header;

	if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) || header.e_ident[EI_CLASS] != ELFCLASS64)
		return false;
	for (int i = 0; i < header.e_phnum; i++) {
		off_t at = (off_t)header.e_phoff + i * (off_t)sizeof(*segment);

		if (pread(fd, segment, sizeof(*segment), at) != (ssize_t)sizeof(*segment))
			return false;
		if (segment->p_type == type)
			return true;
	}
	return false;
}

static size_t tls_of(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	Elf64_Phdr segment;
	size_t bytes = 0;

	if (fd < 0)
		return 0;
	if (find_segment(fd, PT_TLS, &segment) && segment.p_memsz <= INT_MAX &&
	    segment.p_align <= INT_MAX)
		bytes = segment.p_memsz + segment.p_align;
	close(fd);
	return bytes;
}

/* "#!/bin/sh -e": 1, and its interpreter in @path.  0: no script. */
static int follow_script(int fd, char *path, size_t size)
{
	char line[PATH_MAX + 2] = "", *word;

	if (pread(fd, line, sizeof(line) - 1, 0) < 2 || line[0] != '#' || line[1] != '!')
		return 0;
	line[strcspn(line, "\n")] = '\0';
	word = line + 2 + strspn(line + 2, " \t");
	word[strcspn(word, " \t")] = '\0';
	return snprintf(path, size, "%s", word) < (int)size;
}

/* The loader that the program asks for.  0 or -ENOEXEC. */
static int find_loader(char *path, size_t size, char loader[PATH_MAX])
{
	Elf64_Phdr segment;
	ssize_t n = -1;
	int fd;

	for (int i = 0; i <= MAX_SCRIPTS; i++) {
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			return -ENOEXEC;
		if (!follow_script(fd, path, size))
			break;
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		return -ENOEXEC;
	if (find_segment(fd, PT_INTERP, &segment) && segment.p_filesz < PATH_MAX)
		n = pread(fd, loader, segment.p_filesz, (off_t)segment.p_offset);
	close(fd);
	if (n <= 0)
		return -ENOEXEC;
	loader[n] = '\0';
	return 0;
}

static pid_t start_loader(char *loader, char *path, int out)
{
	char list[] = "--list", *const argv[] = { loader, list, path, NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid = -1;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	if (posix_spawn(&pid, loader, &actions, NULL, argv, environ))
		pid = -1;
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

/* "\tlibc.so.6 => /lib/libc.so.6 (0x7f...)", or "\t/lib/guard.so (0x7f...)". */
static void read_line(char *line, const char *guard, struct run_loader *out)
{
	char *path = strchr(line, '/'), *end;

	if (!path)
		return;
	end = strstr(path, " (0x");
	if (end)
		*end = '\0';
	out->guarded |= strstr(path, guard) != NULL;
	out->asan |= strstr(path, "/libasan.so") != NULL;
	out->tls += tls_of(path);
}

int run_loader_ask(const char *path, const char *guard, struct run_loader *out)
{
	char program[PATH_MAX], loader[PATH_MAX], *line = NULL;
	size_t size = 0;
	int ends[2], status;
	FILE *list;
	pid_t pid;

	*out = (struct run_loader){ 0 };
	if (snprintf(program, sizeof(program), "%s", path) >= (int)sizeof(program) ||
	    find_loader(program, sizeof(program), loader) || pipe2(ends, O_CLOEXEC))
		return -ENOEXEC;
	pid = start_loader(loader, program, ends[1]);
	close(ends[1]);
	list = fdopen(ends[0], "r");
	while (list && pid > 0 && getline(&line, &size, list) > 0)
		read_line(line, guard, out);
	free(line);
	if (list)
		fclose(list);
	if (pid < 0)
		return -ENOEXEC;
	out->tls += tls_of(program);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -ENOEXEC;
}
