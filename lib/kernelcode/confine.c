/* SPDX-License-Identifier: MIT */
/* What this process may do, in three steps that each take away. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "kernelcode/kernelcode.h"

#define CPU_SECONDS 1 /* a thousand times what an answer takes */
#define WALL_SECONDS 10
#define MAX_MEMORY (512u << 20)

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH 0
#endif

static bool limit_time(void)
{
	const struct itimerval cpu = { .it_value.tv_sec = CPU_SECONDS };
	const struct itimerval wall = { .it_value.tv_sec = WALL_SECONDS };

	return !setitimer(ITIMER_VIRTUAL, &cpu, NULL) && !setitimer(ITIMER_REAL, &wall, NULL);
}

bool kernelcode_confine(void)
{
	const struct rlimit no_core = { 0, 0 }, memory = { MAX_MEMORY, MAX_MEMORY };

	/* A kernel without close_range() (before 5.9) gets none of ours: they close on exec. */
	syscall(SYS_close_range, 3, ~0U, 0);
	return !prctl(PR_SET_DUMPABLE, 0) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !setrlimit(RLIMIT_CORE, &no_core) && !setrlimit(RLIMIT_AS, &memory) && limit_time();
}

#define MAX_CALLS 32

/* Calls that are not in the list kill the process. */
static bool allow(const int *calls, size_t count)
{
	struct sock_filter code[MAX_CALLS + 6];
	struct sock_fprog program = { .filter = code };
	size_t n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, arch));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < count; i++)
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							 (unsigned int)calls[i],
							 (unsigned char)(count - i), 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = (unsigned short)n;
	return !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

bool kernelcode_confine_reading(void)
{
	static const int calls[] = {
		SYS_read,	SYS_mmap,	    SYS_munmap,	      SYS_mremap,	SYS_brk,
		SYS_mprotect,	SYS_madvise,	    SYS_memfd_create, SYS_write,	SYS_close,
		SYS_getrandom,	SYS_sigaltstack,    SYS_rt_sigaction, SYS_rt_sigreturn, SYS_prctl,
		SYS_exit_group, SYS_rt_sigprocmask, SYS_futex,	      SYS_ftruncate,
	};

	return allow(calls, sizeof(calls) / sizeof(calls[0]));
}

bool kernelcode_confine_running(void)
{
	static const int calls[] = { SYS_rt_sigreturn, SYS_exit_group };

	return allow(calls, sizeof(calls) / sizeof(calls[0]));
}
