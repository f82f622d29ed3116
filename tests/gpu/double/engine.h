/* SPDX-License-Identifier: MIT */
/*
 * A test double of a GPU driver: device memory is a sparse memfd of the
 * process, so that processes really share it.  It answers as libcuda of
 * driver 580 does on an H200 (measured), the errors that are crashes there
 * included: those end the test with abort().
 *
 * cuda.c and hip.c put the two vendors' names on it.
 */
#ifndef DOUBLE_ENGINE_H
#define DOUBLE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/abi.h"

#define DOUBLE_DEVICES 4
#define DOUBLE_GRANULE (2ull << 20)

/* What tests set and read; one a process. */
struct double_gpu {
	int devices;
	int version;
	int init_result;
	bool initialised;
	bool need_init; /* calls fail until init was called */
	bool base_zero; /* host chunks: address range answers base 0 */
	bool hip_needs_open_fd; /* import is put off until access is set */
	size_t hip_offset; /* of an allocation in its buffer object */
	int attributes[DOUBLE_DEVICES][160];
	/* counts */
	long handles; /* references held by the caller */
	long mappings, reservations, contexts, opened;
	long exports, dmabufs;
	/* fault injection: the call numbered fail_at (from 1) fails */
	long calls, fail_at;
	int fail_result;
	size_t short_dmabuf; /* bytes that a DMA-BUF lacks */
	long dmabuf_refusals; /* DMA-BUFs over several chunks are refused */
};
extern struct double_gpu double_gpu;

void double_reset(void);
/** double_live() - handles, mappings, reservations and opened IPC handles that
 *  are not given back */
int double_live(void);

enum double_kind { DOUBLE_LEGACY, DOUBLE_POOL, DOUBLE_MANAGED, DOUBLE_PINNED };
uint64_t double_alloc(enum double_kind kind, size_t size, int device);
int double_free(uint64_t ptr);

int double_call(void);
int double_attribute(void *data, int attribute, uint64_t ptr);
int double_attributes(unsigned int count, int *attributes, void **data, uint64_t ptr);
int double_address_range(uint64_t *base, size_t *size, uint64_t ptr);
int double_dmabuf(void *fd, uint64_t ptr, size_t size, int type, unsigned long long flags);
int double_ipc_get(struct gpu_ipc_handle *handle, uint64_t ptr);
int double_ipc_open(uint64_t *ptr, struct gpu_ipc_handle handle, unsigned int flags);
int double_ipc_close(uint64_t ptr);
int double_create(uint64_t *handle, size_t size, const struct gpu_prop *prop,
		  unsigned long long flags);
int double_retain(uint64_t *handle, uint64_t addr);
int double_release(uint64_t handle);
int double_properties(struct gpu_prop *prop, uint64_t handle);
int double_granularity(size_t *granularity, const struct gpu_prop *prop, int option);
int double_export(void *out, uint64_t handle, int type, unsigned long long flags);
int double_import_fd(uint64_t *handle, int fd);
int double_reserve(uint64_t *ptr, size_t size, size_t alignment, uint64_t hint,
		   unsigned long long flags);
int double_address_free(uint64_t ptr, size_t size);
int double_map(uint64_t ptr, size_t size, size_t offset, uint64_t handle, unsigned long long flags);
int double_unmap(uint64_t ptr, size_t size);
int double_set_access(uint64_t ptr, size_t size, const struct gpu_access *desc, size_t count);
int double_can_access_peer(int *can, int device, int peer);
int double_device_count(int *count);
int double_device_name(char *name, int length, int device);
int double_device_uuid(struct gpu_uuid *uuid, int device);
int double_device_memory(size_t *bytes, int device);
int double_device_pci(char *bdf, int length, int device);
int double_init(unsigned int flags);

/* Contexts: CUDA only. */
int double_ctx_current(void **ctx);
int double_ctx_device(int *device);
int double_ctx_push(void *ctx);
int double_ctx_pop(void **ctx);
int double_primary_state(int device, unsigned int *flags, int *active);
int double_primary_retain(void **ctx, int device);
int double_primary_release(int device);
int double_current_device(void);

#endif
