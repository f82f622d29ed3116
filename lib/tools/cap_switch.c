/* SPDX-License-Identifier: MIT */
/* Loads and unloads mrguard_cap.ko. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "tools/cap.h"
#include "tools/commands.h"
#include "tools/fail.h"

#define POLL_NS 200000000L /* between two looks at the holders */

static void keep_words(int fd, char *said, size_t size)
{
	size_t have = 0;
	ssize_t n;
	char rest[256];

	while ((n = read(fd, have < size - 1 ? said + have : rest,
			 have < size - 1 ? size - 1 - have : sizeof(rest))) > 0)
		have += have < size - 1 ? (size_t)n : 0;
	said[have] = 0;
	said[strcspn(said, "\n")] = 0;
	base_make_plain(said);
}

/* Runs modprobe; @said gets the first line that it wrote.  Return: its exit status, or -errno. */
static int modprobe(const char *const *words, char *said, size_t size)
{
	posix_spawn_file_actions_t actions;
	int pipes[2], ret, status;
	pid_t pid;

	said[0] = 0;
	if (pipe2(pipes, O_CLOEXEC))
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], STDERR_FILENO);
	ret = posix_spawnp(&pid, "modprobe", &actions, NULL, (char *const *)(uintptr_t)words,
			   environ);
	posix_spawn_file_actions_destroy(&actions);
	close(pipes[1]);
	if (!ret)
		keep_words(pipes[0], said, size);
	close(pipes[0]);
	if (ret)
		return -ret;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static const char *load_remedy(const char *said)
{
	if (strstr(said, "not found in directory"))
		return "Install the package mrguard-cap-dkms and this kernel's headers (linux-headers-$(uname -r)), "
		       "or run 'make dkms-install-cap' in mrguard's source and 'dkms install mrguard-cap/" MRG_VERSION_STRING
		       "'.";
	if (strstr(said, "Key was rejected") || strstr(said, "Required key"))
		return "The kernel wants a signature: enrol DKMS's key once ('mokutil --import "
		       "/var/lib/dkms/mok.pub') and reboot.";
	if (strstr(said, "Operation not permitted"))
		return "The kernel is locked down: see 'cat /sys/kernel/security/lockdown' and mrguard-cap(8).";
	return "See the kernel log: dmesg | grep mrguard_cap.";
}

static int load(void)
{
	static const char *const words[] = { "modprobe", CAP_MODULE, NULL };
	char said[256];
	int ret = modprobe(words, said, sizeof(said));

	if (!ret)
		return 0;
	if (ret < 0)
		fail_say("Load the module by hand: insmod.",
			 "The program modprobe cannot be run: %s.", strerror(-ret));
	else
		fail_say(load_remedy(said), "The module " CAP_MODULE " cannot be loaded: %s.",
			 said[0] ? said : "modprobe gave no reason");
	return ret;
}

/* What tells whether this kernel needs the cap, where it is installed. */
static void load_walk(void)
{
	static const char *const words[] = {
		"modprobe", "-a", "-q", "mrguard", "mrguard_walk", NULL
	};
	char said[256];

	modprobe(words, said, sizeof(said));
}

static void list_mrs(void)
{
	ssize_t n = mrg_cap_record();

	if (n < 0)
		fail_say("Restart programs that hold MRs of more than 4 GiB.",
			 "The MRs that are older than the cap cannot be listed: %s.",
			 strerror((int)-n));
}

static int status_of(const struct cap_status *status)
{
	const char *name = cap_state_name(status);

	if (!strcmp(name, "not effective") || !strcmp(name, "lost"))
		return EXIT_FAILED;
	return cap_is_at_risk(status) ? EXIT_FINDING : EXIT_OK;
}

int cap_on(const struct term *term)
{
	struct cap_status status;
	bool wanted;
	int ret;

	load_walk();
	cap_look(&status);
	wanted = !status.loaded && !status.needless;
	cap_close(&status);
	if (wanted && load())
		return EXIT_FAILED;
	if (wanted)
		list_mrs();
	cap_look(&status);
	cap_print(term, &status);
	ret = status_of(&status);
	cap_close(&status);
	return ret;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* This process's own look at it holds the module as well, and so has to end first. */
static int unload(void)
{
	return syscall(SYS_delete_module, CAP_MODULE, O_NONBLOCK) ? -errno : 0;
}

static void name_holders(FILE *out)
{
	struct cap_status status;

	cap_look(&status);
	for (ssize_t i = 0; i < status.holder_count; i++)
		fprintf(out, "  %s\n", cap_process(status.holders[i]).text);
	cap_close(&status);
}

/* Return: 0, or -errno of the last try. */
static int try_to_unload(double seconds)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };
	double end = now() + seconds;
	bool told = false;
	int ret;

	while ((ret = unload()) == -EWOULDBLOCK && now() < end) {
		if (!told) {
			fprintf(stderr, "Waiting for the processes that hold the cap:\n");
			name_holders(stderr);
			told = true;
		}
		nanosleep(&pause, NULL);
	}
	return ret;
}

int cap_off(const struct term *term, double seconds)
{
	int ret = mrg_cap_is_loaded() ? try_to_unload(seconds) : -ENOENT;

	if (ret == -EWOULDBLOCK) {
		fail_say("End these processes, or wait for them: mrguard cap off --wait.",
			 "The cap cannot be unloaded: processes have MRs that rely on it.");
		name_holders(stderr);
		return EXIT_FAILED;
	}
	if (ret && ret != -ENOENT) {
		fail_say("See the kernel log: dmesg | grep mrguard_cap.",
			 "The module " CAP_MODULE " cannot be unloaded: %s.", strerror(-ret));
		return EXIT_FAILED;
	}
	fprintf(term->out, "cap      off: %s\n",
		ret ? CAP_MODULE " was not loaded" :
		      "MRs registered from now on are as the kernel makes them");
	if (mrg_cap_is_for_boot())
		fprintf(term->out, "boot     enabled: sudo mrguard cap off --boot ends that too\n");
	return EXIT_OK;
}
