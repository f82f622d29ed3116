/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "transfer/socket.h"
#include "transfer/transfer.h"

#define BACKLOG 1024
#define TX_MAX (16u << 20)
#define TX_OWN (1u << 20) /* beyond it, for what must not get lost */
#define RX_FIRST 4096
#define READS 16 /* of RX_FIRST bytes or more before others get their turn */
/* A peer whose host is gone says nothing: found out after 5 + 3 * 2 s. */
#define IDLE_S 5
#define PROBE_S 2
#define PROBES 3
#define UNACKED_MS 10000

void transfer_socket_name(const struct sockaddr *addr, socklen_t length, char name[80])
{
	char host[NI_MAXHOST], service[NI_MAXSERV];

	if (getnameinfo(addr, length, host, sizeof(host), service, sizeof(service),
			NI_NUMERICHOST | NI_NUMERICSERV)) {
		snprintf(name, 80, "?");
		return;
	}
	snprintf(name, 80, strchr(host, ':') ? "[%.60s]:%.8s" : "%.60s:%.8s", host, service);
}

static void set(int fd, int level, int option, int value)
{
	/* Some stacks lack one or the other: deadlines hold in any case. */
	(void)setsockopt(fd, level, option, &value, sizeof(value));
}

void transfer_socket_prepare(int fd)
{
	set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S);
	set(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S);
	set(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
	set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKED_MS);
}

static int look_up(struct mrg_transfer *transfer, const char *host, const char *service, int flags,
		   struct addrinfo **found)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags };
	int err = getaddrinfo(host, service ? service : "0", &hints, found);

	if (!err)
		return 0;
	return transfer_fail(transfer, -EINVAL, "look up address",
			     "Check the address and the port.",
			     "The address %s, port %s, cannot be looked up: %s.", host ? host : "*",
			     service ? service : "0", gai_strerror(err));
}

static int listen_on(const struct addrinfo *at)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -errno;
	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (at->ai_family == AF_INET6)
		set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (!bind(fd, at->ai_addr, at->ai_addrlen) && !listen(fd, BACKLOG))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static unsigned int port_of(int fd)
{
	struct sockaddr_storage addr;
	socklen_t length = sizeof(addr);

	if (getsockname(fd, (struct sockaddr *)&addr, &length))
		return 0;
	if (addr.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)&addr)->sin6_port);
	return ntohs(((struct sockaddr_in *)&addr)->sin_port);
}

/* IPv6 first where all addresses are meant: it takes IPv4 as well. */
static int listen_first(const struct addrinfo *list, bool any)
{
	int fd = -EAFNOSUPPORT;

	for (const struct addrinfo *at = list; at && fd < 0; at = at->ai_next)
		if (!any || at->ai_family == AF_INET6)
			fd = listen_on(at);
	for (const struct addrinfo *at = list; at && fd < 0; at = at->ai_next)
		fd = listen_on(at);
	return fd;
}

int transfer_socket_listen(struct mrg_transfer *transfer, const char *host, const char *service,
			   unsigned int *port)
{
	struct addrinfo *list;
	int fd = look_up(transfer, host, service, AI_PASSIVE, &list);

	if (fd)
		return fd;
	fd = listen_first(list, !host);
	freeaddrinfo(list);
	if (fd < 0)
		return transfer_fail(transfer, fd, "listen",
				     "Use another port, or an address of this host.",
				     "The library cannot listen on %s, port %s: %s.",
				     host ? host : "*", service ? service : "0", strerror(-fd));
	*port = port_of(fd);
	return fd;
}

int transfer_socket_dial(struct mrg_transfer *transfer, const char *host, const char *service,
			 char peer[80])
{
	struct addrinfo *list;
	int fd, ret = look_up(transfer, host, service, 0, &list);

	if (ret)
		return ret;
	transfer_socket_name(list->ai_addr, list->ai_addrlen, peer);
	fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	ret = fd < 0 ? -errno : 0;
	if (!ret && connect(fd, list->ai_addr, list->ai_addrlen) && errno != EINPROGRESS)
		ret = -errno;
	freeaddrinfo(list);
	if (!ret) {
		transfer_socket_prepare(fd);
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return transfer_fail(transfer, ret, "connect", "Check that the peer listens there.",
			     "The library cannot connect to %s: %s.", peer, strerror(-ret));
}

/* ---- writing ---- */

static int tx_room(struct transfer_socket *s, size_t more, size_t most)
{
	size_t room = s->tx_room ? s->tx_room : 1024;
	uint8_t *tx;

	if (s->tx_length + more > most)
		return -EAGAIN;
	while (room < s->tx_length + more)
		room *= 2;
	if (room == s->tx_room)
		return 0;
	tx = realloc(s->tx, room);
	if (!tx)
		return -ENOMEM;
	s->tx = tx;
	s->tx_room = room;
	return 0;
}

static void watch(struct transfer_socket *s, bool writes)
{
	struct epoll_event event = { .events = EPOLLIN | (writes ? EPOLLOUT : 0) };

	if (writes == s->tx_watched || s->fd < 0)
		return;
	event.data.u64 = s->key;
	if (!epoll_ctl(s->epoll, EPOLL_CTL_MOD, s->fd, &event))
		s->tx_watched = writes;
}

int transfer_socket_flush(struct transfer_socket *s)
{
	size_t sent = 0;
	ssize_t n;

	while (sent < s->tx_length && s->fd >= 0) {
		n = send(s->fd, s->tx + sent, s->tx_length - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return -errno;
		if (n < 0)
			break;
		sent += (size_t)n;
	}
	if (sent)
		memmove(s->tx, s->tx + sent, s->tx_length - sent);
	s->tx_length -= sent;
	watch(s, s->tx_length > 0);
	return 0;
}

int transfer_socket_keep(struct transfer_socket *s, const struct transfer_message *message)
{
	bool note = message->type == MESSAGE_NOTE;
	int ret;

	if (s->fd < 0)
		return -ENOTCONN;
	if (note)
		ret = tx_room(s, MESSAGE_HEAD + message->note.length, TX_MAX);
	else
		ret = tx_room(s, MESSAGE_SMALL, TX_MAX + TX_OWN);
	if (!ret)
		s->tx_length += transfer_message_encode(message, s->tx + s->tx_length);
	return ret;
}

int transfer_socket_send(struct transfer_socket *s, const struct transfer_message *message)
{
	int ret = transfer_socket_keep(s, message);

	return ret ? ret : transfer_socket_flush(s);
}

void transfer_socket_close(struct transfer_socket *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* ---- reading ---- */

static int rx_room(struct transfer_socket *s, size_t wanted)
{
	uint8_t *rx;

	if (wanted < RX_FIRST)
		wanted = RX_FIRST;
	if (s->rx_room >= wanted)
		return 0;
	rx = realloc(s->rx, wanted);
	if (!rx)
		return -ENOMEM;
	s->rx = rx;
	s->rx_room = wanted;
	return 0;
}

/* Hands on what is whole; makes room for what is not. */
static int take_whole(struct mrg_ep *ep, struct transfer_socket *s,
		      int (*take)(struct mrg_ep *ep, const struct transfer_message *message))
{
	struct transfer_message message;
	size_t at = 0;
	ssize_t length;
	int ret = 0;

	while (!ret) {
		length = transfer_message_length(s->rx + at, s->rx_length - at);
		if (length < 0)
			return (int)length;
		if (!length || (size_t)length > s->rx_length - at)
			break;
		ret = transfer_message_decode(s->rx + at, (size_t)length, &message);
		if (!ret)
			ret = take(ep, &message);
		at += (size_t)length;
	}
	memmove(s->rx, s->rx + at, s->rx_length - at);
	s->rx_length -= at;
	if (ret)
		return ret;
	length = transfer_message_length(s->rx, s->rx_length);
	return length < 0 ? (int)length : rx_room(s, (size_t)length);
}

int transfer_socket_receive(struct mrg_ep *ep, struct transfer_socket *s,
			    int (*take)(struct mrg_ep *ep, const struct transfer_message *message))
{
	int ret = rx_room(s, RX_FIRST);
	ssize_t n;

	for (int i = 0; i < READS && !ret && s->fd >= 0; i++) {
		n = recv(s->fd, s->rx + s->rx_length, s->rx_room - s->rx_length, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0)
			return -errno;
		if (!n)
			return -ECONNRESET;
		s->rx_length += (size_t)n;
		ret = take_whole(ep, s, take);
	}
	return ret;
}
