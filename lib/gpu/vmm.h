/* SPDX-License-Identifier: MIT */
/*
 * For lib/share: one chunk of VMM memory as a file descriptor,
 * and such descriptors as one mapping; likewise for IPC handles.
 */
#ifndef GPU_VMM_H
#define GPU_VMM_H

#include "gpu/driver.h"

/**
 * gpu_export_chunk() - a fresh file descriptor for the chunk at @addr
 * @id: the id that it must have still; 0 = the driver has none
 * @fd: OUT close-on-exec; the caller's
 *
 * Return: 0; -ESTALE (another mapping is there now, or none); -EMFILE; -EIO...
 */
int gpu_export_chunk(struct mrg_gpu *gpu, enum gpu_vendor vendor, uint64_t addr, uint64_t id,
		     int *fd);

/**
 * gpu_ipc_export() - the IPC handle of the allocation at @base
 * Return: 0; -ESTALE; -EOPNOTSUPP (imported memory)
 */
int gpu_ipc_export(struct mrg_gpu *gpu, enum gpu_vendor vendor, int device, uint64_t base,
		   uint64_t id, struct gpu_ipc_handle *handle);

/* A reserved address range that is filled chunk by chunk. */
struct gpu_window {
	struct mrg_gpu *gpu;
	struct gpu_driver *driver;
	int owner; /* the device that the memory is on */
	int device; /* access first for this one */
	uint64_t addr, size; /* reserved */
	uint64_t filled; /* mapped */
	uint64_t ready; /* mapped, and the own device has access */
	uint64_t *sizes; /* of the chunks mapped */
	size_t count, room;
	size_t ready_count;
	int *fds; /* HIP: kept until access is set */
	size_t held, fd_room;
	struct gpu_imported note;
	bool noted;
};

/**
 * gpu_window_open() - reserve @size bytes
 * @device: ordinal; -1: that with @key
 * Return: 0; -ENODEV; -EINVAL (sizes that are no multiples of @granularity...)
 */
int gpu_window_open(struct mrg_gpu *gpu, enum gpu_vendor vendor, const uint8_t key[16], int device,
		    uint64_t size, struct gpu_window *window);
/** gpu_window_granule() - every chunk's size is a multiple of it */
int gpu_window_granule(struct gpu_window *window, uint64_t *granule);
/** gpu_window_add() - map the chunk behind @fd at the end of what is there.
 *  Takes @fd over, also when it fails. */
int gpu_window_add(struct gpu_window *window, int fd, uint64_t size);
/**
 * gpu_window_settle() - give the own device access to what was added
 *
 * Best done every few chunks: it then overlaps with the owner's exporting (1,500
 * chunks of 2 MiB on an H200: 169 ms against 202 ms with one call at the end).
 * Return: 0 or -errno.
 */
int gpu_window_settle(struct gpu_window *window);
/** gpu_window_finish() - the last chunk is in; with @all, give each peer
 *  device access that can have it.  Return: how many devices have it. */
int gpu_window_finish(struct gpu_window *window, bool all);
/** gpu_window_close() - unmap chunk by chunk, free the range */
void gpu_window_close(struct gpu_window *window);

/** gpu_ipc_import() - map an allocation by its IPC handle, on the device
 *  with @key.  Return: 0; -ENODEV, -ENOTCONN, -EIO... */
int gpu_ipc_import(struct mrg_gpu *gpu, enum gpu_vendor vendor, const uint8_t key[16],
		   const struct gpu_ipc_handle *handle, int *device, uint64_t *addr);
void gpu_ipc_release(struct mrg_gpu *gpu, enum gpu_vendor vendor, int device, uint64_t addr);

#endif
