/* SPDX-License-Identifier: MIT */
/* A Redis of the test's own: on loopback, without a file, ended by its process
 * ID, and with the test itself. */
#ifndef UNIT_REDIS_SERVER_H
#define UNIT_REDIS_SERVER_H

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include <mrguard/directory.h>

#ifndef TIMEOUT_MS
#define TIMEOUT_MS 1500
#endif

static pid_t server;
static int port;
static char address[32];
static struct mrg_error error;

static inline int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}

static inline void pause_ms(int ms)
{
	const struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

static int listen_anywhere(int *number)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&at, length), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &length), 0);
	*number = ntohs(at.sin_port);
	return fd;
}

static void choose_port(void)
{
	close(listen_anywhere(&port));
	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
}

/* Debian's redis-server is its redis-check-rdb by another name, which
 * redis-tools has: a server without a service that starts by itself. */
static void run_server(const char *password)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", port);
	server = fork();
	if (server)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!freopen("/dev/null", "w", stdout))
		_exit(1);
	execlp("redis-check-rdb", "redis-server", "--bind", "127.0.0.1", "--port", number, "--save",
	       "", "--appendonly", "no", "--dir", "/tmp", "--requirepass", password, (char *)NULL);
	_exit(127);
}

static struct mrg_directory *try_open(uint32_t lease_ms, const char *password, int *ret)
{
	const struct mrg_directory_opts opts = {
		.size = sizeof(opts),
		.server = address,
		.password = password,
		.timeout_ms = TIMEOUT_MS,
		.lease_ms = lease_ms,
	};
	struct mrg_directory *directory = NULL;

	*ret = mrg_directory_open(&directory, &opts, &error);
	return directory;
}

static void await_server(const char *password)
{
	struct mrg_directory *directory = NULL;
	int ret = 0;

	for (int i = 0; i < 1200 && !directory; i++) {
		directory = try_open(0, *password ? password : NULL, &ret);
		if (!directory)
			pause_ms(50);
	}
	if (!directory)
		print_message("# %s\n", error.cause);
	assert_non_null(directory);
	mrg_directory_close(directory);
}

static void start_server(const char *password)
{
	run_server(password);
	await_server(password);
}

static void stop_server(void)
{
	if (server <= 0)
		return;
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	server = 0;
}

#endif
