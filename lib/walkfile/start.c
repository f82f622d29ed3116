/* SPDX-License-Identifier: MIT */
/*
 * Starts the program without the caller's process noticing.  A child that has run
 * execve() ends with SIGCHLD and is seen by wait(-1), whatever it was made with
 * (de_thread() in fs/exec.c).  So between the two stands a child that shares
 * the caller's memory, as vfork()'s does, has no signal to send when it ends, and
 * only starts the program and waits for it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "walkfile/walkfile.h"

#define PROGRAM "mrguard-kernelcode"
#define STACK_SIZE (64UL << 10)

/* Beside the library where it was built, and in its folder where it is installed. */
static bool find_program(char *path, size_t room)
{
	static const char *const folders[] = { "", "/mrguard" };
	const char *given = secure_getenv("MRGUARD_KERNELCODE"), *slash;
	Dl_info info;

	if (given) {
		snprintf(path, room, "%s", given);
		return true;
	}
	if (dladdr((void *)(uintptr_t)find_program, &info) &&
	    (slash = strrchr(info.dli_fname, '/')))
		for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
			snprintf(path, room, "%.*s%s/" PROGRAM, (int)(slash - info.dli_fname),
				 info.dli_fname, folders[i]);
			if (!access(path, X_OK))
				return true;
		}
	snprintf(path, room, "%s", WALKFILE_LIBDIR "/mrguard/" PROGRAM);
	return !access(path, X_OK);
}

struct start {
	const char *program;
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	int error;
};

/* In a process of its own, but in the caller's memory. */
static int between(void *arg)
{
	static char *const argv[] = { PROGRAM, NULL }, *const envp[] = { NULL };
	struct start *start = arg;
	pid_t pid;

	start->error =
		posix_spawn(&pid, start->program, &start->files, &start->attributes, argv, envp);
	while (!start->error && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

static int run(struct start *start)
{
	void *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	sigset_t all, before;
	pid_t pid;

	if (stack == MAP_FAILED)
		return -ENOMEM;
	/* The child has the caller's handlers, and none may run in it. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = clone(between, (char *)stack + STACK_SIZE, CLONE_VM | CLONE_VFORK, start);
	if (pid < 0)
		start->error = errno;
	while (pid > 0 && waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	munmap(stack, STACK_SIZE);
	return -start->error;
}

static int prepare(struct start *start, int file, int btf, int out)
{
	const short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
	sigset_t all, none;
	int ret;

	sigfillset(&all);
	sigemptyset(&none);
	ret = posix_spawnattr_setflags(&start->attributes, flags)			  ?:
		      posix_spawnattr_setsigmask(&start->attributes, &none)		  ?:
		      posix_spawnattr_setsigdefault(&start->attributes, &all)		  ?:
		      posix_spawn_file_actions_adddup2(&start->files, file, STDIN_FILENO) ?:
		      posix_spawn_file_actions_adddup2(&start->files, out, STDOUT_FILENO);
	if (!ret && btf >= 0)
		ret = posix_spawn_file_actions_adddup2(&start->files, btf, STDERR_FILENO);
	else if (!ret)
		ret = posix_spawn_file_actions_addopen(&start->files, STDERR_FILENO, "/dev/null",
						       O_RDONLY, 0);
	return -ret;
}

int walkfile_start(int file, int btf, char *text)
{
	char program[4096];
	struct start start = { .program = program };
	int fds[] = { -1, -1, -1 };
	ssize_t n = 0;
	int ret;

	text[0] = 0;
	if (!find_program(program, sizeof(program)))
		return -ENOENT;
	/* Above the three, so that none is replaced before it was copied. */
	fds[0] = fcntl(file, F_DUPFD_CLOEXEC, 3);
	fds[1] = btf < 0 ? -1 : fcntl(btf, F_DUPFD_CLOEXEC, 3);
	ret = memfd_create(PROGRAM, MFD_CLOEXEC);
	fds[2] = ret < 0 ? -1 : fcntl(ret, F_DUPFD_CLOEXEC, 3);
	if (ret >= 0)
		close(ret);
	posix_spawn_file_actions_init(&start.files);
	posix_spawnattr_init(&start.attributes);
	ret = fds[0] < 0 || fds[2] < 0 ? -errno : prepare(&start, fds[0], fds[1], fds[2]);
	if (!ret)
		ret = run(&start);
	if (!ret)
		n = pread(fds[2], text, WALKFILE_TEXT - 1, 0);
	text[n > 0 ? n : 0] = 0;
	posix_spawnattr_destroy(&start.attributes);
	posix_spawn_file_actions_destroy(&start.files);
	for (size_t i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return ret;
}
