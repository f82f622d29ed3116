/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/files.h"
#include "share/socket.h"

#define BACKLOG 64

int share_random(void *bytes, size_t length)
{
	return getrandom(bytes, length, 0) == (ssize_t)length ? 0 : -EIO;
}

/* Random, since process numbers are not unique: each container has its 1. */
int share_name(const char *dir, struct share_address *address)
{
	uint64_t number[2];
	int length;

	if (share_random(number, sizeof(number)))
		return -EIO;
	memset(address, 0, sizeof(*address));
	if (!dir) {
		length = snprintf(address->name + 1, sizeof(address->name) - 1,
				  "mrguard-share-%016llx%016llx", (unsigned long long)number[0],
				  (unsigned long long)number[1]);
		address->length = (size_t)length + 1;
		return 0;
	}
	length = snprintf(address->name, sizeof(address->name), "%s/mrguard-%016llx.sock", dir,
			  (unsigned long long)number[0]);
	address->length = (size_t)length + 1;
	return address->length > sizeof(address->name) ? -ENAMETOOLONG : 0;
}

static socklen_t fill(const struct share_address *address, struct sockaddr_un *sun)
{
	memset(sun, 0, sizeof(*sun));
	sun->sun_family = AF_UNIX;
	memcpy(sun->sun_path, address->name, address->length);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + address->length);
}

static int new_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

/* The mode goes to the file that bind() makes, so that there is no moment at
 * which others could connect. */
int share_listen(const struct share_address *address)
{
	struct sockaddr_un sun;
	socklen_t length = fill(address, &sun);
	int fd = new_socket(), ret;

	if (fd < 0)
		return fd;
	fchmod(fd, 0600);
	if (!bind(fd, (struct sockaddr *)&sun, length) && !listen(fd, BACKLOG))
		return fd;
	ret = -errno;
	close(fd);
	return ret;
}

int share_connect(const struct share_address *address)
{
	struct sockaddr_un sun;
	socklen_t length = fill(address, &sun);
	int fd = new_socket(), ret;

	if (fd < 0)
		return fd;
	if (!connect(fd, (struct sockaddr *)&sun, length))
		return fd;
	ret = -errno;
	close(fd);
	return ret;
}

int share_peer(int fd, uid_t *uid, pid_t *pid)
{
	struct ucred credentials;
	socklen_t length = sizeof(credentials);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length))
		return -errno;
	*uid = credentials.uid;
	*pid = credentials.pid;
	return 0;
}

bool share_may_ask(uid_t uid)
{
	return uid == geteuid() || uid == 0;
}

int share_send(int fd, const void *message, size_t length, const int *fds, size_t count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(SHARE_MAX_FDS * sizeof(int))];
	} control;
	struct iovec iov = { (void *)message, length };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

	if (count) {
		struct cmsghdr *cmsg = &control.align;

		memset(&control, 0, sizeof(control));
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, count * sizeof(int));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
	}
	do {
		sent = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}

void share_close_fds(const int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
}

static size_t collect(struct msghdr *msg, int *fds)
{
	size_t total = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		memcpy(fds + total, CMSG_DATA(c), bytes);
		total += bytes / sizeof(int);
	}
	return total;
}

/* Drivers take 0 for no descriptor, and a process with a closed stdin gets it. */
static int raise_fds(int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int fd = fds[i];

		if (fd > 2)
			continue;
		fds[i] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		close(fd);
		if (fds[i] < 0) {
			share_close_fds(fds, i);
			share_close_fds(fds + i + 1, count - i - 1);
			return -EMFILE;
		}
	}
	return 0;
}

ssize_t share_receive(int fd, union share_message *message, int fds[SHARE_MAX_FDS], size_t *count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(SHARE_MAX_FDS * sizeof(int))];
	} control;
	struct iovec iov = { message, sizeof(*message) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t length;

	*count = 0;
	do {
		length = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	} while (length < 0 && errno == EINTR);
	if (length < 0)
		return -errno;
	*count = collect(&msg, fds);
	if (!(msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) && !raise_fds(fds, *count))
		return length;
	if (msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC))
		share_close_fds(fds, *count);
	*count = 0;
	return msg.msg_flags & MSG_TRUNC ? -EMSGSIZE : -EMFILE;
}

uint64_t share_netns(void)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) ? 0 : st.st_ino;
}

/* "f81d4fae-7dec-11d0-a765-00a0c91e6bf6" */
void share_boot_id(uint8_t id[16])
{
	const uint8_t *end = id + 16;
	char text[40];

	memset(id, 0, 16);
	host_first_line(text, sizeof(text), "/proc/sys/kernel/random/boot_id");
	for (const char *at = text; id < end && sscanf(at, "%2hhx", id) == 1; id++)
		at += at[2] == '-' ? 3 : 2;
}
