/* SPDX-License-Identifier: MIT */
/* Unix sockets of the sequenced-packet kind: addresses, peers, messages with
 * file descriptors.  No call here blocks. */
#ifndef SHARE_SOCKET_H
#define SHARE_SOCKET_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/clock.h"
#include "share/message.h"

struct share_address {
	char name[sizeof(((struct sockaddr_un *)0)->sun_path)];
	size_t length; /* a path's with its zero */
};

static inline bool share_is_abstract(const struct share_address *address)
{
	return !address->name[0];
}

/** share_name() - a fresh address: abstract, or in @dir.  0; -ENAMETOOLONG;
 *  -EIO. */
int share_name(const char *dir, struct share_address *address);
/** share_listen() - the listening socket, or -errno */
int share_listen(const struct share_address *address);
/** share_connect() - a connected socket, or -errno; -EAGAIN: later */
int share_connect(const struct share_address *address);
/** share_peer() - the process at the other end.  @pid is 0 for a process that
 *  this PID namespace does not show. */
int share_peer(int fd, uid_t *uid, pid_t *pid);
/** share_may_ask() - a peer of @uid may be served: the own one, and root */
bool share_may_ask(uid_t uid);
/** share_send() - 0 or -errno */
int share_send(int fd, const void *message, size_t length, const int *fds, size_t count);
/**
 * share_receive() - one message
 * @fds, @count: OUT its descriptors, all above 2, the caller's to close
 *
 * Return: its length; 0 at the end; -EAGAIN; -EMSGSIZE (too long); -EMFILE
 * (descriptors were cut off for want of room: none is left open); -errno.
 */
ssize_t share_receive(int fd, union share_message *message, int fds[SHARE_MAX_FDS], size_t *count);
void share_close_fds(const int *fds, size_t count);

static inline uint64_t share_now_ms(void)
{
	return (uint64_t)base_now_ms();
}

/** share_wait_ms() - for poll(2), which counts in an int: @left, rounded up,
 *  or as much of it as fits.  A caller that waited too short a time looks at the
 *  clock and waits again. */
static inline int share_wait_ms(uint64_t left)
{
	return left < INT_MAX ? (int)left + 1 : INT_MAX;
}

/** share_netns() - the network namespace's inode; 0 = not known */
uint64_t share_netns(void);
/** share_boot_id() - zeros where it is not known */
void share_boot_id(uint8_t id[16]);
/** share_random() - 0 or -EIO */
int share_random(void *bytes, size_t length);

#endif
