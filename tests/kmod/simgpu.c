/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * simgpu: a DMA-BUF exporter that stands in for a GPU's.  simgpu.h says what
 * it does.  Its memory is RAM that memmap=16G$4G, on arm64 mem=3G, kept from the
 * kernel, which has no struct pages, as a GPU's BAR has none.
 */
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#include "simgpu.h"

#define pr_simgpu(fmt, ...) pr_info("simgpu: " fmt, ##__VA_ARGS__)

/* cdd30ebb1b9f made the namespace a string. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS("DMA_BUF");
#else
MODULE_IMPORT_NS(DMA_BUF);
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
#define vm_flags_set(vma, flags) ((vma)->vm_flags |= (flags))
#endif

/* Renamed in 7.1; Kbuild looks into the header. */
#ifndef SIMGPU_HAVE_INVALIDATE_MAPPINGS
#define dma_buf_invalidate_mappings dma_buf_move_notify
#endif

static unsigned long base = 4UL << 30;
module_param(base, ulong, 0444);
MODULE_PARM_DESC(base, "start of the reserved RAM (default 4 GiB)");

static unsigned long bytes = 16UL << 30;
module_param(bytes, ulong, 0444);
MODULE_PARM_DESC(bytes, "bytes of reserved RAM, 0 for invented addresses only (default 16 GiB)");

static bool dynamic;
module_param(dynamic, bool, 0444);
MODULE_PARM_DESC(dynamic, "DMA-BUFs can be pinned and moved (default 0)");

/* Keeps the range write-back for PAT: without a reservation of that type the
 * CPU's mappings would be uncached.
 */
static void *keep_cached;

static atomic_t buffers_alive;
static atomic64_t attached_alive, mapped_alive, maps_made, pins_held, moves_made;

/* One extent, with the offset in the DMA-BUF of the byte after it. */
struct extent {
	u64 addr;
	u64 end;
};

struct buffer {
	u64 seg;
	u32 flags;
	u32 delay_ms;
	u32 fail_errno;
	u32 extents_n;
	atomic_t fail_after;
	bool revoked; /* written under the reservation lock, as are extents */
	atomic64_t attached, mapped, maps, pinned, moves;
	struct extent *extents;
};

/* One importer's mapping; the table comes first, it is all that others see. */
struct mapping {
	struct sg_table sgt;
	u64 seg;
};

static u64 extent_start(const struct buffer *buf, u32 i)
{
	return i ? buf->extents[i - 1].end : 0;
}

static u64 extent_len(const struct buffer *buf, u32 i)
{
	return buf->extents[i].end - extent_start(buf, i);
}

static u64 entries_needed(const struct buffer *buf, u64 seg)
{
	u64 n = 0;
	u32 i;

	for (i = 0; i < buf->extents_n; i++) {
		n += DIV_ROUND_UP_ULL(extent_len(buf, i), seg);
		if (!(i % 4096))
			cond_resched();
	}
	return n;
}

/* ------------------------------------------------------------- importers */

static bool fails_now(struct buffer *buf, bool attaching)
{
	if (!buf->fail_errno || attaching != !!(buf->flags & SIMGPU_FAIL_ATTACH))
		return false;
	return atomic_dec_if_positive(&buf->fail_after) < 0;
}

static int simgpu_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *at)
{
	struct buffer *buf = dmabuf->priv;

	if (at->importer_ops && !at->peer2peer)
		return -EOPNOTSUPP;
	if (fails_now(buf, true))
		return -(int)buf->fail_errno;
	atomic64_inc(&buf->attached);
	atomic64_inc(&attached_alive);
	return 0;
}

static void simgpu_detach(struct dma_buf *dmabuf, struct dma_buf_attachment *at)
{
	struct buffer *buf = dmabuf->priv;

	atomic64_dec(&buf->attached);
	atomic64_dec(&attached_alive);
}

/*
 * Undoes the DMA mapping of the first @n entries.  What was mapped as one
 * piece, an entry or with SIMGPU_WHOLE an extent, starts at an entry that
 * begins a piece; @n never ends inside one.
 */
static void dma_unmap_entries(struct buffer *buf, struct mapping *map, struct device *dev, u64 n,
			      enum dma_data_direction dir)
{
	struct scatterlist *sg = map->sgt.sgl;
	u64 left, piece;
	u32 i;

	if (buf->flags & SIMGPU_FAKE)
		return;
	for (i = 0; i < buf->extents_n && n; i++) {
		left = extent_len(buf, i);
		piece = buf->flags & SIMGPU_WHOLE ? left : map->seg;
		for (; left && n; n--, sg = sg_next(sg)) {
			if (piece == map->seg || left == extent_len(buf, i))
				dma_unmap_resource(dev, sg_dma_address(sg), min(piece, left), dir,
						   0);
			left -= min(map->seg, left);
		}
		cond_resched();
	}
}

static int dma_map_entries(struct buffer *buf, struct mapping *map, struct device *dev,
			   enum dma_data_direction dir)
{
	bool whole = buf->flags & SIMGPU_WHOLE, fake = buf->flags & SIMGPU_FAKE;
	struct scatterlist *sg = map->sgt.sgl;
	u64 done = 0, pos, len, total;
	dma_addr_t dma = 0;
	u32 i;

	for (i = 0; i < buf->extents_n; i++) {
		total = extent_len(buf, i);
		for (pos = 0; pos < total; pos += len, done++, sg = sg_next(sg)) {
			len = min(map->seg, total - pos);
			if (fake)
				dma = buf->extents[i].addr + pos;
			else if (whole && pos)
				dma += map->seg;
			else
				dma = dma_map_resource(dev, buf->extents[i].addr + pos,
						       whole ? total : len, dir, 0);
			if (!fake && dma_mapping_error(dev, dma)) {
				dma_unmap_entries(buf, map, dev, done, dir);
				return -ENOMEM;
			}
			sg_set_page(sg, NULL, len, 0);
			sg_dma_address(sg) = dma;
			sg_dma_len(sg) = len;
		}
		cond_resched();
	}
	return 0;
}

static struct sg_table *simgpu_map(struct dma_buf_attachment *at, enum dma_data_direction dir)
{
	struct buffer *buf = at->dmabuf->priv;
	struct mapping *map;
	u64 n;
	int ret;

	if (buf->delay_ms)
		msleep(buf->delay_ms);
	if (buf->revoked)
		return ERR_PTR(-ENODEV);
	if (fails_now(buf, false))
		return ERR_PTR(-(int)buf->fail_errno);
	map = kzalloc(sizeof(*map), GFP_KERNEL);
	if (!map)
		return ERR_PTR(-ENOMEM);
	map->seg = buf->seg ?: ALIGN_DOWN(dma_get_max_seg_size(at->dev), PAGE_SIZE);
	n = entries_needed(buf, map->seg);
	ret = n > SIMGPU_MAX_ENTRIES ? -E2BIG : sg_alloc_table(&map->sgt, n, GFP_KERNEL);
	if (ret)
		goto free_map;
	ret = dma_map_entries(buf, map, at->dev, dir);
	if (ret)
		goto free_table;
	atomic64_inc(&buf->mapped);
	atomic64_inc(&mapped_alive);
	atomic64_inc(&buf->maps);
	atomic64_inc(&maps_made);
	return &map->sgt;

free_table:
	sg_free_table(&map->sgt);
free_map:
	kfree(map);
	return ERR_PTR(ret);
}

static void simgpu_unmap(struct dma_buf_attachment *at, struct sg_table *sgt,
			 enum dma_data_direction dir)
{
	struct mapping *map = container_of(sgt, struct mapping, sgt);
	struct buffer *buf = at->dmabuf->priv;

	dma_unmap_entries(buf, map, at->dev, sgt->orig_nents, dir);
	sg_free_table(sgt);
	kfree(map);
	atomic64_dec(&buf->mapped);
	atomic64_dec(&mapped_alive);
}

/* Under the reservation lock, which keeps a move away. */
static int simgpu_pin(struct dma_buf_attachment *at)
{
	struct buffer *buf = at->dmabuf->priv;

	atomic64_inc(&buf->pinned);
	atomic64_inc(&pins_held);
	return 0;
}

static void simgpu_unpin(struct dma_buf_attachment *at)
{
	struct buffer *buf = at->dmabuf->priv;

	atomic64_dec(&buf->pinned);
	atomic64_dec(&pins_held);
}

static void free_buffer(struct buffer *buf)
{
	kvfree(buf->extents);
	kfree(buf);
}

static void simgpu_release(struct dma_buf *dmabuf)
{
	free_buffer(dmabuf->priv);
	atomic_dec(&buffers_alive);
}

/* ------------------------------------------------------------- the CPU */

/* The first extent that ends after @pos. */
static u32 extent_at(const struct buffer *buf, u64 pos)
{
	u32 lo = 0, hi = buf->extents_n - 1, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (buf->extents[mid].end > pos)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static vm_fault_t insert_page(struct vm_fault *vmf, const struct buffer *buf, u64 pos)
{
	u32 i = extent_at(buf, pos);

	return vmf_insert_pfn(vmf->vma, vmf->address,
			      PHYS_PFN(buf->extents[i].addr + pos - extent_start(buf, i)));
}

static vm_fault_t simgpu_fault(struct vm_fault *vmf)
{
	struct dma_buf *dmabuf = vmf->vma->vm_private_data;
	struct buffer *buf = dmabuf->priv;
	u64 pos = (u64)vmf->pgoff << PAGE_SHIFT;
	vm_fault_t ret;

	if (READ_ONCE(buf->revoked) || pos >= dmabuf->size)
		return VM_FAULT_SIGBUS;
	/* Memory that never moves must not wait for a map that takes long. */
	if (!dynamic)
		return insert_page(vmf, buf, pos);
	dma_resv_lock(dmabuf->resv, NULL);
	ret = insert_page(vmf, buf, pos);
	dma_resv_unlock(dmabuf->resv);
	return ret;
}

/* The core holds a reference to the DMA-BUF's file as long as the VMA lives. */
static const struct vm_operations_struct simgpu_vm_ops = {
	.fault = simgpu_fault,
};

static int simgpu_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	struct buffer *buf = dmabuf->priv;

	if (buf->flags & SIMGPU_FAKE)
		return -EOPNOTSUPP;
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_private_data = dmabuf;
	vma->vm_ops = &simgpu_vm_ops;
	return 0;
}

static const struct dma_buf_ops simgpu_ops = {
	.attach = simgpu_attach,
	.detach = simgpu_detach,
	.map_dma_buf = simgpu_map,
	.unmap_dma_buf = simgpu_unmap,
	.release = simgpu_release,
	.mmap = simgpu_mmap,
};

/* The core takes an exporter with a pin for one that can move. */
static const struct dma_buf_ops simgpu_dynamic_ops = {
	.attach = simgpu_attach,
	.detach = simgpu_detach,
	.pin = simgpu_pin,
	.unpin = simgpu_unpin,
	.map_dma_buf = simgpu_map,
	.unmap_dma_buf = simgpu_unmap,
	.release = simgpu_release,
	.mmap = simgpu_mmap,
};

/* ------------------------------------------------------------- ioctls */

static int check_create(const struct simgpu_create *arg)
{
	u64 mask = arg->flags & SIMGPU_FAKE ? 0 : PAGE_SIZE - 1;

	if (arg->size != sizeof(*arg) || arg->extents_n > SIMGPU_MAX_EXTENTS || !arg->extents_n)
		return -EINVAL;
	if (arg->flags & ~(SIMGPU_FAKE | SIMGPU_WHOLE | SIMGPU_FAIL_ATTACH))
		return -EINVAL;
	if (arg->seg > U32_MAX || arg->seg & mask)
		return -EINVAL;
	if (arg->delay_ms > 10000 || arg->fail_errno > 4095)
		return -EINVAL;
	return 0;
}

static int check_extent(const struct simgpu_extent *e, bool fake)
{
	if (!e->len || e->len > 1ULL << 48)
		return -EINVAL;
	if (fake)
		return 0;
	if (!PAGE_ALIGNED(e->addr) || !PAGE_ALIGNED(e->len))
		return -EINVAL;
	if (e->addr < base || e->len > bytes || e->addr - base > bytes - e->len)
		return -ERANGE;
	return 0;
}

/* Returns the extents, to be given to kvfree(), or an error. */
static struct extent *copy_extents(u64 user, u32 count, bool fake)
{
	const struct simgpu_extent __user *from = u64_to_user_ptr(user);
	struct simgpu_extent e;
	struct extent *extents;
	int ret = -EFAULT;
	u64 end = 0;
	u32 i;

	extents = kvcalloc(count, sizeof(*extents), GFP_KERNEL_ACCOUNT);
	if (!extents)
		return ERR_PTR(-ENOMEM);
	for (i = 0; i < count; i++) {
		if (copy_from_user(&e, from + i, sizeof(e)))
			goto free;
		ret = check_extent(&e, fake);
		if (!ret && (check_add_overflow(end, e.len, &end) || end > S64_MAX))
			ret = -EINVAL;
		if (ret)
			goto free;
		extents[i].addr = e.addr;
		extents[i].end = end;
		if (!(i % 4096))
			cond_resched();
	}
	return extents;

free:
	kvfree(extents);
	return ERR_PTR(ret);
}

static struct buffer *make_buffer(const struct simgpu_create *arg)
{
	struct buffer *buf;
	int ret;

	buf = kzalloc(sizeof(*buf), GFP_KERNEL_ACCOUNT);
	if (!buf)
		return ERR_PTR(-ENOMEM);
	buf->flags = arg->flags;
	buf->seg = arg->seg;
	buf->delay_ms = arg->delay_ms;
	buf->fail_errno = arg->fail_errno;
	buf->extents_n = arg->extents_n;
	atomic_set(&buf->fail_after, min_t(u32, arg->fail_after, INT_MAX));
	buf->extents = copy_extents(arg->extents, arg->extents_n, arg->flags & SIMGPU_FAKE);
	if (IS_ERR(buf->extents)) {
		ret = PTR_ERR(buf->extents);
		kfree(buf);
		return ERR_PTR(ret);
	}
	if (entries_needed(buf, buf->seg ?: U32_MAX) > SIMGPU_MAX_ENTRIES) {
		free_buffer(buf);
		return ERR_PTR(-E2BIG);
	}
	return buf;
}

static long simgpu_create(void __user *user)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct simgpu_create arg;
	struct dma_buf *dmabuf;
	struct buffer *buf;
	int ret;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	ret = check_create(&arg);
	if (ret)
		return ret;
	buf = make_buffer(&arg);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	info.ops = dynamic ? &simgpu_dynamic_ops : &simgpu_ops;
	info.size = buf->extents[buf->extents_n - 1].end;
	info.flags = O_RDWR | O_CLOEXEC;
	info.priv = buf;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf)) {
		free_buffer(buf);
		return PTR_ERR(dmabuf);
	}
	atomic_inc(&buffers_alive);
	ret = dma_buf_fd(dmabuf, O_CLOEXEC);
	if (ret < 0)
		dma_buf_put(dmabuf);
	return ret;
}

/* A DMA-BUF of ours, with a reference to be put. */
static struct dma_buf *ours(int fd)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);

	if (IS_ERR(dmabuf) || dmabuf->ops == &simgpu_ops || dmabuf->ops == &simgpu_dynamic_ops)
		return dmabuf;
	dma_buf_put(dmabuf);
	return ERR_PTR(-EINVAL);
}

static long simgpu_stat(struct simgpu_stat __user *user)
{
	struct simgpu_stat st = { .base = base, .bytes = bytes };
	struct dma_buf *dmabuf;
	struct buffer *buf;

	if (get_user(st.fd, &user->fd))
		return -EFAULT;
	st.buffers = atomic_read(&buffers_alive);
	st.attached = atomic64_read(&attached_alive);
	st.mapped = atomic64_read(&mapped_alive);
	st.maps = atomic64_read(&maps_made);
	st.pinned = atomic64_read(&pins_held);
	st.moves = atomic64_read(&moves_made);
	if (st.fd != -1) {
		dmabuf = ours(st.fd);
		if (IS_ERR(dmabuf))
			return PTR_ERR(dmabuf);
		buf = dmabuf->priv;
		st.attached = atomic64_read(&buf->attached);
		st.mapped = atomic64_read(&buf->mapped);
		st.maps = atomic64_read(&buf->maps);
		st.pinned = atomic64_read(&buf->pinned);
		st.moves = atomic64_read(&buf->moves);
		dma_buf_put(dmabuf);
	}
	return copy_to_user(user, &st, sizeof(st)) ? -EFAULT : 0;
}

static long simgpu_revoke(int fd)
{
	struct dma_buf *dmabuf = ours(fd);
	struct buffer *buf;

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	buf = dmabuf->priv;
	dma_resv_lock(dmabuf->resv, NULL);
	WRITE_ONCE(buf->revoked, true);
	dma_buf_invalidate_mappings(dmabuf);
	dma_resv_unlock(dmabuf->resv);
	unmap_mapping_range(dmabuf->file->f_mapping, 0, 0, 1);
	dma_buf_put(dmabuf);
	return 0;
}

/* ------------------------------------------------------------- moving */

static bool overlap(const struct buffer *a, const struct buffer *b)
{
	u32 i, j;

	for (i = 0; i < a->extents_n; i++)
		for (j = 0; j < b->extents_n; j++)
			if (a->extents[i].addr < b->extents[j].addr + extent_len(b, j) &&
			    b->extents[j].addr < a->extents[i].addr + extent_len(a, i))
				return true;
	return false;
}

/* The kernel's view of the bytes from @pos on; *len is cut to what lies together. */
static void *view(const struct buffer *buf, u64 pos, u64 *len)
{
	u32 i = extent_at(buf, pos);

	*len = min(*len, buf->extents[i].end - pos);
	return keep_cached + (buf->extents[i].addr + pos - extent_start(buf, i) - base);
}

/* Memory that nobody wrote to takes none of the host's: zeros are not written again. */
static void copy_page_of(void *to, const void *from)
{
	if (memchr_inv(from, 0, PAGE_SIZE))
		memcpy(to, from, PAGE_SIZE);
	else if (memchr_inv(to, 0, PAGE_SIZE))
		memset(to, 0, PAGE_SIZE);
}

static void copy_bytes(const struct buffer *to, const struct buffer *from, u64 size)
{
	u64 pos, len;

	for (pos = 0; pos < size; pos += PAGE_SIZE) {
		len = PAGE_SIZE;
		copy_page_of(view(to, pos, &len), view(from, pos, &len));
		if (!(pos % SZ_2M))
			cond_resched();
	}
}

/* Under the reservation lock.  On success @next has the memory that was left. */
static int move_locked(struct dma_buf *dmabuf, struct buffer *next, u32 flags)
{
	struct buffer *buf = dmabuf->priv;

	if (buf->revoked)
		return -ENODEV;
	if (atomic64_read(&buf->pinned) && !(flags & SIMGPU_MOVE_PINNED))
		return -EBUSY;
	if (next->extents[next->extents_n - 1].end != dmabuf->size || overlap(buf, next))
		return -EINVAL;
	dma_buf_invalidate_mappings(dmabuf);
	unmap_mapping_range(dmabuf->file->f_mapping, 0, 0, 1);
	copy_bytes(next, buf, dmabuf->size);
	swap(buf->extents, next->extents);
	swap(buf->extents_n, next->extents_n);
	atomic64_inc(&buf->moves);
	atomic64_inc(&moves_made);
	return 0;
}

static int move_to(struct dma_buf *dmabuf, const struct simgpu_move *arg)
{
	struct buffer *buf = dmabuf->priv, next = { .extents_n = arg->extents_n };
	int ret;

	if (!dynamic || buf->flags & SIMGPU_FAKE)
		return -EOPNOTSUPP;
	next.extents = copy_extents(arg->extents, arg->extents_n, false);
	if (IS_ERR(next.extents))
		return PTR_ERR(next.extents);
	dma_resv_lock(dmabuf->resv, NULL);
	ret = move_locked(dmabuf, &next, arg->flags);
	dma_resv_unlock(dmabuf->resv);
	kvfree(next.extents);
	return ret;
}

static long simgpu_move(const void __user *user)
{
	struct simgpu_move arg;
	struct dma_buf *dmabuf;
	int ret;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	if (arg.flags & ~SIMGPU_MOVE_PINNED || arg.reserved || !arg.extents_n ||
	    arg.extents_n > SIMGPU_MAX_EXTENTS)
		return -EINVAL;
	dmabuf = ours(arg.fd);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	ret = move_to(dmabuf, &arg);
	dma_buf_put(dmabuf);
	return ret;
}

static long simgpu_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	switch (cmd) {
	case SIMGPU_IOC_CREATE:
		return simgpu_create((void __user *)arg);
	case SIMGPU_IOC_STAT:
		return simgpu_stat((void __user *)arg);
	case SIMGPU_IOC_REVOKE:
		return simgpu_revoke(arg);
	case SIMGPU_IOC_MOVE:
		return simgpu_move((void __user *)arg);
	}
	return -ENOTTY;
}

static const struct file_operations simgpu_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = simgpu_ioctl,
};

static struct miscdevice simgpu_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "simgpu",
	.fops = &simgpu_fops,
	.mode = 0600,
};

static int __init simgpu_init(void)
{
	int ret;

	if (bytes) {
		if (pfn_valid(PHYS_PFN(base)) || pfn_valid(PHYS_PFN(base + bytes - 1))) {
			pr_simgpu(
				"%#lx is the kernel's memory; boot with memmap=16G$4G or mem=3G\n",
				base);
			return -EBUSY;
		}
		keep_cached = memremap(base, bytes, MEMREMAP_WB);
		if (!keep_cached)
			return -ENOMEM;
	}
	ret = misc_register(&simgpu_misc);
	if (ret && keep_cached)
		memunmap(keep_cached);
	return ret;
}

static void __exit simgpu_exit(void)
{
	misc_deregister(&simgpu_misc);
	if (keep_cached)
		memunmap(keep_cached);
}

module_init(simgpu_init);
module_exit(simgpu_exit);
MODULE_DESCRIPTION("DMA-BUF exporter with any scatter list, for tests");
MODULE_LICENSE("GPL");
