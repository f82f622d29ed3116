/* SPDX-License-Identifier: MIT */
/*
 * The host: /dev/mrguard, and the RDMA devices that sysfs shows.
 *
 * Handles are opaque and may be used by several threads at once, unless a
 * function says otherwise.  Functions return 0 or a count, or -errno.
 */
#ifndef MRGUARD_HOST_H
#define MRGUARD_HOST_H

#include <stdbool.h>
#include <sys/types.h>
#include <mrguard/common.h>
#include <mrguard/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mrg_dev; /* an open /dev/mrguard */

struct mrg_pci_addr {
	uint32_t domain;
	uint8_t bus;
	uint8_t device;
	uint8_t function;
	uint8_t reserved; /* 0 */
};

/**
 * mrg_dev_open() - open /dev/mrguard and agree on the ABI
 * @dev: OUT
 *
 * Return: 0; -ENOENT (module not loaded); -EACCES (no permission: the node
 * belongs to group rdma); -EPROTO (the module speaks no ABI of ours); -errno
 * of open(2).
 */
MRG_API int mrg_dev_open(struct mrg_dev **dev);
MRG_API void mrg_dev_close(struct mrg_dev *dev);

/**
 * enum mrg_cap - what mrguard_cap.ko does to this kernel, as it is now
 * @MRG_CAP_OFF:	it is not loaded
 * @MRG_CAP_WAITING:	it is loaded, and the RDMA core is not
 * @MRG_CAP_SET:	its probe is set; without mrguard_walk.ko nothing shows an effect
 * @MRG_CAP_EFFECTIVE:	the kernel's own pick was seen not to exceed 2 GiB
 * @MRG_CAP_NOT_EFFECTIVE: the probe is set, and the pick still exceeds 2 GiB
 * @MRG_CAP_LOST:	the RDMA core was loaded again, and the probe could not be set
 */
enum mrg_cap {
	MRG_CAP_OFF,
	MRG_CAP_WAITING,
	MRG_CAP_SET,
	MRG_CAP_EFFECTIVE,
	MRG_CAP_NOT_EFFECTIVE,
	MRG_CAP_LOST,
};

/** mrg_cap_name() - "off", "capped", ...; "unknown" for a state of a later module */
MRG_API const char *mrg_cap_name(enum mrg_cap cap);

/*
 * While @cap is MRG_CAP_EFFECTIVE, mrguard_cap.ko cannot be unloaded until @dev is
 * closed.  The counts are picks since it was loaded: all, those from which pages
 * above 2 GiB were taken, and those that offered larger pages only.
 */
struct mrg_dev_info {
	uint32_t abi;
	bool has_layout;
	bool has_vma;
	bool has_walk; /* mrguard_walk.ko is loaded */
	enum mrg_walk walk; /* MRG_WALK_UNKNOWN where it is not known */
	char version[16];
	enum mrg_cap cap; /* MRG_CAP_OFF with a module of 0.1.0 */
	uint32_t reserved0; /* 0 */
	uint64_t cap_asked;
	uint64_t cap_capped;
	uint64_t cap_uncapped;
	uint64_t reserved[4]; /* 0 */
};
/** mrg_dev_info() - ask the module.  -EBADF: the program closed @dev's descriptor, or
 *  opened another file under its number. */
MRG_API int mrg_dev_info(struct mrg_dev *dev, struct mrg_dev_info *info);

enum mrg_iommu {
	MRG_IOMMU_MODE_NONE,
	MRG_IOMMU_MODE_IDENTITY,
	MRG_IOMMU_MODE_TRANSLATED,
	MRG_IOMMU_MODE_UNKNOWN
};

/* A DMA-BUF's addresses as one importer maps it; see mrg_dev_layout(). */
struct mrg_layout {
	struct mrg_sg *sg; /* coalesced runs, or entries; owned by this */
	size_t count;
	uint64_t start; /* offset in the DMA-BUF where sg[0] starts */
	uint64_t dmabuf_size;
	uint64_t entries; /* scatter-list entries as mapped */
	uint64_t max_seg_size;
	uint64_t map_ns;
	enum mrg_iommu iommu;
	bool equivalent; /* not raw: see MRG_IOC_LAYOUT */
	bool moves; /* the exporter can move the memory later */
	char exporter[32];
	uint64_t reserved[4]; /* 0 */
};
/* As in mrguard(4): runs, not entries. */
#define MRG_LAYOUT_COALESCE (1U << 0)

/**
 * mrg_dev_layout() - the DMA addresses behind a range of a DMA-BUF
 * @fd: the DMA-BUF; not consumed
 * @importer: the RDMA device's PCI function
 * @iova, @offset, @length: as the MR would have them; length 0 = to the end
 * @flags: MRG_LAYOUT_COALESCE, or 0 for the entries as mapped
 * @layout: OUT, to be released with mrg_layout_release()
 *
 * All addresses come from one mapping, or from several between which nothing
 * moved.  More than MRG_LAYOUT_MAX_RUNS take several.
 *
 * Return: 0 or the errors of MRG_IOC_LAYOUT (mrguard(4)); -EAGAIN (the buffer
 * moved each time); -EOVERFLOW (more than one call's runs behind a translating
 * IOMMU, where no two calls see the same addresses).
 */
MRG_API int mrg_dev_layout(struct mrg_dev *dev, int fd, const struct mrg_pci_addr *importer,
			   uint64_t iova, uint64_t offset, uint64_t length, uint32_t flags,
			   struct mrg_layout *layout);
MRG_API void mrg_layout_release(struct mrg_layout *layout);

/** What the running kernel's own functions make of an MR. */
struct mrg_kernel_blocks {
	uint64_t page_size;
	uint64_t total_blocks;
	uint64_t walked;
	uint64_t wrong;
	uint64_t first_wrong; /* MRG_NO_OFFSET if none */
	bool endless;
	uint64_t reserved[2]; /* 0 */
};
/**
 * mrg_dev_blocks() - ask the kernel about a list (see MRG_IOC_BLOCKS)
 * @sg: runs; one of 4 GiB or more is handed over as entries of 2 GiB
 * @addrs: NULL, or room for @addrs_cap block addresses, from block @start
 *
 * Return: the number of addresses written, or the errors of MRG_IOC_BLOCKS
 * (mrguard(4)).  With -EOVERFLOW (too many blocks to walk) @out is written all
 * the same, its page_size and total_blocks are good.
 */
MRG_API ssize_t mrg_dev_blocks(struct mrg_dev *dev, const struct mrg_sg *sg, size_t count,
			       uint64_t iova, uint64_t offset, uint64_t length,
			       uint64_t pgsz_bitmap, uint64_t start, uint64_t *addrs,
			       size_t addrs_cap, struct mrg_kernel_blocks *out);
/** mrg_dev_dmabuf_blocks() - the same for a DMA-BUF and an importer.  Callers
 *  without CAP_SYS_ADMIN get no block addresses, and @pgsz_bitmap must be all
 *  page sizes from the host's up to some limit. */
MRG_API ssize_t mrg_dev_dmabuf_blocks(struct mrg_dev *dev, int fd,
				      const struct mrg_pci_addr *importer, uint64_t iova,
				      uint64_t offset, uint64_t length, uint64_t pgsz_bitmap,
				      uint64_t start, uint64_t *addrs, size_t addrs_cap,
				      struct mrg_kernel_blocks *out);

/** VMA counts, see MRG_IOC_VMA. */
struct mrg_vma_counts {
	uint64_t map_count;
	uint64_t vmas, dontcopy, joinable;
	uint64_t stuck_anon, stuck_special, stuck_file, stuck_other;
	uint64_t mapped, special, unwritten, page_size;
	uint64_t reserved[4]; /* 0 */
};
/** mrg_dev_vma() - @start == @end == 0 asks for map_count alone, in O(1).
 *  @pid 0 = this process.  Errors: those of MRG_IOC_VMA (mrguard(4)). */
MRG_API int mrg_dev_vma(struct mrg_dev *dev, pid_t pid, uint64_t start, uint64_t end,
			struct mrg_vma_counts *out);

/**
 * enum mrg_pick - whose function picks the page of a device's MRs
 * @MRG_PICK_UNKNOWN:	no evidence
 * @MRG_PICK_KERNEL:	the kernel's, which mrguard_cap.ko caps
 * @MRG_PICK_OWN:	the driver's own copy, on which the cap has no effect
 */
enum mrg_pick {
	MRG_PICK_UNKNOWN,
	MRG_PICK_KERNEL,
	MRG_PICK_OWN,
};

/** mrg_pick_name() - "unknown", "kernel", "own" */
MRG_API const char *mrg_pick_name(enum mrg_pick pick);

/** One RDMA device of /sys/class/infiniband. */
struct mrg_rdma_dev {
	char name[64];
	char driver[64]; /* "" where there is none */
	char netdev[32]; /* "" where there is none */
	bool has_pci;
	struct mrg_pci_addr pci;
	enum mrg_pick pick;
	uint32_t reserved0; /* 0 */
	uint64_t reserved[3]; /* 0 */
};
/** mrg_rdma_list() - the RDMA devices, by name.  @sysfs NULL = "/sys".  @devs
 *  is to be freed with free(3).  Returns their number, 0 where there are none. */
MRG_API ssize_t mrg_rdma_list(const char *sysfs, struct mrg_rdma_dev **devs);
/** mrg_importer_find() - the PCI function that @name stands for: an RDMA
 *  device or a PCI address ("0000:01:00.0", "01:00.0").  -ENODEV, -EINVAL. */
MRG_API int mrg_importer_find(const char *sysfs, const char *name, struct mrg_pci_addr *pci);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_HOST_H */
