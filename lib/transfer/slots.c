/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "transfer/slots.h"

struct transfer_slot *transfer_slots_find(struct transfer_slots *slots, uint64_t key)
{
	size_t index = key & UINT32_MAX;
	struct transfer_slot *slot = &slots->at[index];

	return index < slots->count && slot->serial == key >> 32 ? slot : NULL;
}

static int free_slot(struct transfer_slots *slots, size_t *index)
{
	size_t count = slots->count ? 2 * slots->count : 8;
	struct transfer_slot *more;

	for (*index = 0; *index < slots->count; ++*index)
		if (!slots->at[*index].ep && !slots->at[*index].listener)
			return 0;
	more = reallocarray(slots->at, count, sizeof(*more));
	if (!more)
		return -ENOMEM;
	memset(more + slots->count, 0, (count - slots->count) * sizeof(*more));
	slots->at = more;
	slots->count = count;
	return 0;
}

int transfer_slots_add(struct transfer_slots *slots, struct mrg_ep *ep,
		       struct mrg_listener *listener, int fd, bool writes, size_t *index,
		       uint64_t *key)
{
	struct epoll_event event = { .events = EPOLLIN | (writes ? EPOLLOUT : 0) };
	struct transfer_slot *slot;
	int ret = free_slot(slots, index);

	if (ret)
		return ret;
	slot = &slots->at[*index];
	*key = event.data.u64 = (uint64_t)++slot->serial << 32 | *index;
	if (epoll_ctl(slots->epoll, EPOLL_CTL_ADD, fd, &event))
		return -errno;
	slot->ep = ep;
	slot->listener = listener;
	return 0;
}

void transfer_slots_remove(struct transfer_slots *slots, size_t index, int fd)
{
	if (fd >= 0)
		epoll_ctl(slots->epoll, EPOLL_CTL_DEL, fd, NULL);
	slots->at[index].serial++;
	slots->at[index].ep = NULL;
	slots->at[index].listener = NULL;
}
