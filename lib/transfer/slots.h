/* SPDX-License-Identifier: MIT */
/*
 * The endpoints and listeners that the control thread knows, by index and
 * serial: an event that was fetched before its endpoint's end finds nothing.
 */
#ifndef TRANSFER_SLOTS_H
#define TRANSFER_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mrg_ep;
struct mrg_listener;

struct transfer_slot {
	uint32_t serial;
	struct mrg_ep *ep;
	struct mrg_listener *listener;
};

struct transfer_slots {
	struct transfer_slot *at;
	size_t count;
	int epoll; /* of their sockets */
};

/* All with the lock of the transfer held. */

/**
 * transfer_slots_add() - take in an endpoint or a listener, and watch its socket
 * @writes: watch for writing, too
 * @index: OUT
 * @key: OUT, what events of @fd carry
 *
 * Return: 0 or -errno.
 */
int transfer_slots_add(struct transfer_slots *slots, struct mrg_ep *ep,
		       struct mrg_listener *listener, int fd, bool writes, size_t *index,
		       uint64_t *key);
void transfer_slots_remove(struct transfer_slots *slots, size_t index, int fd);
/* NULL: gone. */
struct transfer_slot *transfer_slots_find(struct transfer_slots *slots, uint64_t key);

#endif
