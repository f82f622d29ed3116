// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rings that user space and the kernel share, laid out as rdma_rxe's are.
 *
 * An index that user space wrote is masked before use and otherwise believed:
 * a wrong one makes the kernel see stale elements of that ring, no more.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "simnic.h"

static struct simnic_ring *ring_alloc(u32 entries, size_t elem)
{
	struct simnic_ring *ring = kzalloc(sizeof(*ring), GFP_KERNEL);
	u32 slots = roundup_pow_of_two(entries + 1);
	size_t size;

	if (!ring)
		return NULL;
	elem = roundup_pow_of_two(max_t(size_t, elem, SMP_CACHE_BYTES));
	size = PAGE_ALIGN(sizeof(*ring->buf) + slots * elem);
	ring->buf = vmalloc_user(size);
	if (!ring->buf) {
		kfree(ring);
		return NULL;
	}
	ring->mask = slots - 1;
	ring->shift = ilog2(elem);
	ring->buf->index_mask = ring->mask;
	ring->buf->log2_elem_size = ring->shift;
	ring->entry.npages = size >> PAGE_SHIFT;
	return ring;
}

static void ring_free(struct simnic_ring *ring)
{
	vfree(ring->buf);
	kfree(ring);
}

struct simnic_ring *simnic_ring_create(struct ib_udata *udata, u32 entries, size_t elem,
				       struct mminfo *mi)
{
	struct simnic_ucontext *uctx = rdma_udata_to_drv_context(udata, struct simnic_ucontext, ib);
	struct simnic_ring *ring = ring_alloc(entries, elem);
	size_t size;
	int err;

	if (!ring)
		return ERR_PTR(-ENOMEM);
	size = ring->entry.npages << PAGE_SHIFT;
	err = rdma_user_mmap_entry_insert(&uctx->ib, &ring->entry, size);
	if (err) {
		ring_free(ring);
		return ERR_PTR(err);
	}
	mi->offset = rdma_user_mmap_get_offset(&ring->entry);
	mi->size = size;
	mi->pad = 0;
	return ring;
}

/* Freed by simnic_mmap_free(), when an mmap that is under way is done too. */
void simnic_ring_destroy(struct simnic_ring *ring)
{
	rdma_user_mmap_entry_remove(&ring->entry);
}

void simnic_mmap_free(struct rdma_user_mmap_entry *entry)
{
	ring_free(container_of(entry, struct simnic_ring, entry));
}

/*
 * The pages stay with the VMA when the ring is destroyed, as each has a
 * reference: user space then reads memory that nobody writes any more.
 */
int simnic_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry = rdma_user_mmap_entry_get(uctx, vma);
	struct simnic_ring *ring;
	int err;

	if (!entry)
		return -EINVAL;
	ring = container_of(entry, struct simnic_ring, entry);
	err = remap_vmalloc_range(vma, ring->buf, 0);
	rdma_user_mmap_entry_put(entry);
	return err;
}

static void *ring_slot(struct simnic_ring *ring)
{
	return ring->buf->data + ((size_t)ring->own << ring->shift);
}

const void *simnic_ring_peek(struct simnic_ring *ring)
{
	u32 producer = smp_load_acquire(&ring->buf->producer_index) & ring->mask;

	return producer == ring->own ? NULL : ring_slot(ring);
}

void simnic_ring_consumed(struct simnic_ring *ring)
{
	ring->own = (ring->own + 1) & ring->mask;
	smp_store_release(&ring->buf->consumer_index, ring->own);
}

/* Forgets all that user space has posted. */
void simnic_ring_drop(struct simnic_ring *ring)
{
	ring->own = smp_load_acquire(&ring->buf->producer_index) & ring->mask;
	smp_store_release(&ring->buf->consumer_index, ring->own);
}

void *simnic_ring_room(struct simnic_ring *ring)
{
	u32 consumer = smp_load_acquire(&ring->buf->consumer_index) & ring->mask;

	return consumer == ((ring->own + 1) & ring->mask) ? NULL : ring_slot(ring);
}

void simnic_ring_produced(struct simnic_ring *ring)
{
	ring->own = (ring->own + 1) & ring->mask;
	smp_store_release(&ring->buf->producer_index, ring->own);
}
