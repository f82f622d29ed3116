/* SPDX-License-Identifier: MIT */
/* The TCP connection under an endpoint. */
#ifndef TRANSFER_SOCKET_H
#define TRANSFER_SOCKET_H

#include <stdbool.h>
#include <sys/socket.h>

#include "transfer/message.h"

struct mrg_ep;
struct mrg_transfer;

struct transfer_socket {
	int fd; /* -1: closed */
	int epoll; /* that watches it */
	uint64_t key; /* of its events */
	bool tx_watched;
	uint8_t *rx;
	size_t rx_length, rx_room;
	uint8_t *tx;
	size_t tx_length, tx_room;
};

int transfer_socket_listen(struct mrg_transfer *transfer, const char *host, const char *service,
			   unsigned int *port);
int transfer_socket_dial(struct mrg_transfer *transfer, const char *host, const char *service,
			 char peer[80]);
void transfer_socket_prepare(int fd);
void transfer_socket_name(const struct sockaddr *addr, socklen_t length, char name[80]);

/* With the lock of the endpoint held.  0 or -errno. */

/* Until the connection stands, a message waits. */
int transfer_socket_keep(struct transfer_socket *s, const struct transfer_message *message);
int transfer_socket_send(struct transfer_socket *s, const struct transfer_message *message);
int transfer_socket_flush(struct transfer_socket *s);
/* Reads what is there and hands messages to @take until it fails. */
int transfer_socket_receive(struct mrg_ep *ep, struct transfer_socket *s,
			    int (*take)(struct mrg_ep *ep, const struct transfer_message *message));
void transfer_socket_close(struct transfer_socket *s);

#endif
