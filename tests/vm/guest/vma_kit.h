/* SPDX-License-Identifier: MIT */
/*
 * What the guest tests about VMAs and fork share: scenarios that run in a
 * process of their own (fork protection belongs to the process), TAP, and a
 * seccomp filter that keeps RDMA netlink away.
 */
#ifndef VMA_KIT_H
#define VMA_KIT_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include <mrguard/fork.h>
#include <mrguard/host.h>
#include <mrguard/region.h>
#include <mrguard/vma.h>

#include "host/maps.h"

#define KIT_PAGE ((unsigned long)sysconf(_SC_PAGESIZE))
#define KIT_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* A scenario gives 0, or the line where it found something wrong. */
#define CHECK(condition)                 \
	do {                             \
		if (!(condition))        \
			return __LINE__; \
	} while (0)

static int kit_tests, kit_failed;

/* What a scenario's process wants to have said beside its name. */
static char *kit_note;
#define KIT_NOTE 4096

static inline void kit_start(int plan)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("1..%d\n", plan);
	kit_note = mmap(NULL, KIT_NOTE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	/*
	 * Without netlink librxe knows its devices by their name alone, and the
	 * kernel does not load ib_uverbs by itself.
	 */
	if (kit_note == MAP_FAILED || system("modprobe -a mrguard ib_uverbs simnic >&2") ||
	    system("rdma dev set simnic0 name rxe_simnic0 >&2")) {
		printf("Bail out! no mrguard or no simnic\n");
		exit(1);
	}
}

static inline int kit_end(void)
{
	system("rmmod simnic mrguard >&2");
	return kit_failed != 0;
}

static inline void kit_run(const char *name, int (*scenario)(const void *arg), const void *arg)
{
	int status = 0, line = 0, *result = (int *)(kit_note + KIT_NOTE - 64);
	pid_t pid;

	memset(kit_note, 0, KIT_NOTE);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		*result = scenario(arg);
		_exit(*result != 0);
	}
	waitpid(pid, &status, 0);
	line = *result;
	if (WIFSIGNALED(status))
		snprintf(kit_note, 64, "killed by signal %d", WTERMSIG(status));
	kit_tests++;
	kit_failed += status != 0;
	printf("%sok %d - %s\n", status ? "not " : "", kit_tests, name);
	if (kit_note[0])
		printf("# %s\n", kit_note);
	if (line)
		printf("# failed at line %d\n", line);
}

/* Refuses socket(AF_NETLINK, ..., NETLINK_RDMA) with EPERM from here on. */
static inline int kit_refuse_rdma_netlink(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NETLINK_RDMA, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(filter[0]),
		.filter = filter,
	};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -errno : 0;
}

static inline struct ibv_context *kit_open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; list && list[i] && !context; i++)
		if (!strncmp(ibv_get_device_name(list[i]), "rxe_simnic", 10))
			context = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return context;
}

static inline char *kit_map(size_t pages)
{
	char *area = mmap(NULL, pages * KIT_PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return area == MAP_FAILED ? NULL : area;
}

/* VMAs that touch a range, or those of them that are marked. */
static inline long kit_vmas(const void *start, size_t len, bool marked)
{
	uint64_t from = (uintptr_t)start, to = from + len;
	struct host_maps_vma vma;
	struct host_maps maps;
	long count = 0;

	if (host_maps_open(&maps, "/proc/self/smaps"))
		return -1;
	while (host_maps_next(&maps, &vma) == 1)
		if (vma.end > from && vma.start < to && (!marked || vma.flags & HOST_MF_DONTCOPY))
			count++;
	host_maps_close(&maps);
	return count;
}

static inline bool kit_page_marked(const char *area, int page)
{
	return kit_vmas(area + (size_t)page * KIT_PAGE, KIT_PAGE, true) == 1;
}

static inline double kit_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline bool kit_full(void)
{
	const char *full = getenv("MRG_FULL");

	return full && full[0];
}

#endif
