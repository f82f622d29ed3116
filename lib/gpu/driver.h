/* SPDX-License-Identifier: MIT */
/* Inside lib/gpu: the handle, the two drivers behind it, contexts. */
#ifndef GPU_DRIVER_H
#define GPU_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include <mrguard/gpu.h>

#include "base/error.h"
#include "gpu/abi.h"

#define GPU_MAX_DEVICES 64

/* How libraries are found; tests put doubles here. */
struct gpu_loader {
	void *(*open)(const char *name, bool loaded_only);
	void *(*sym)(void *library, const char *name);
};
extern const struct gpu_loader gpu_dl_loader;

enum gpu_vendor { GPU_CUDA, GPU_HIP, GPU_VENDORS };

struct gpu_driver {
	enum gpu_vendor vendor;
	bool loaded;
	bool broken; /* loaded, but lacks calls that we need */
	char why[192]; /* why it is broken */
	int version; /* 13000; 60443484 */
	struct gpu_calls c;
	struct gpu_cuda_calls cuda;
	struct gpu_hip_calls hip;
	struct gpu_hsa_calls hsa;
};

/* A mapping that lib/share made here: the driver cannot tell it apart. */
struct gpu_imported {
	uint64_t addr, size;
	struct gpu_imported *next;
};

struct mrg_gpu {
	uint64_t error_owner;
	const struct gpu_loader *loader;
	uint32_t flags;
	uint64_t page_size;
	char sysfs[128];
	const char *nodes; /* "/dev": tests look elsewhere */
	pid_t pid;
	pthread_mutex_t lock; /* what follows */
	struct gpu_driver drivers[GPU_VENDORS];
	void *held[GPU_MAX_DEVICES]; /* primary contexts kept, by ordinal */
	struct gpu_imported *imported;
};

/* driver.c, cuda.c, hip.c */

int gpu_open_with(struct mrg_gpu **gpu, const struct mrg_gpu_opts *opts,
		  const struct gpu_loader *loader, const char *nodes);
/** gpu_check() - -ECHILD in a child after fork */
int gpu_check(const struct mrg_gpu *gpu);
/** gpu_peek() - the driver, if the process has loaded it; else NULL */
struct gpu_driver *gpu_peek(struct mrg_gpu *gpu, enum gpu_vendor vendor);
/** gpu_start() - the driver, loaded and initialised if it must be.
 *  -ENODEV, with the reason in the calling thread's last error. */
int gpu_start(struct mrg_gpu *gpu, enum gpu_vendor vendor, struct gpu_driver **driver);
int gpu_cuda_load(struct mrg_gpu *gpu, struct gpu_driver *driver, bool loaded_only);
int gpu_hip_load(struct mrg_gpu *gpu, struct gpu_driver *driver, bool loaded_only);

const char *gpu_vendor_name(enum gpu_vendor vendor);
/** gpu_call_name() - the vendor's name of a call of struct gpu_calls */
#define gpu_call_name(driver, call) ((driver)->vendor == GPU_CUDA ? "cu" call : "hip" call)

/** gpu_device_key() - 16 bytes that name a device in any process: its UUID,
 *  else its PCI address */
int gpu_device_key(const struct gpu_driver *driver, int ordinal, uint8_t key[16]);
/** gpu_find_device() - the ordinal with that key; -ENODEV */
int gpu_find_device(struct mrg_gpu *gpu, const struct gpu_driver *driver, const uint8_t key[16]);
int gpu_cuda_attribute(const struct gpu_driver *driver, int ordinal, int attribute);
/** gpu_hip_dmabuf() - false where ROCr says that the kernel exports no DMA-BUFs */
bool gpu_hip_dmabuf(const struct gpu_driver *driver);

/* result.c */

struct gpu_text {
	char text[64];
};
/** gpu_result() - "CUDA_ERROR_INVALID_VALUE (1)" */
struct gpu_text gpu_result(const struct gpu_driver *driver, int result);
/** gpu_errno() - the -errno for a driver's result */
int gpu_errno(int result);
/** gpu_fail_call() - a driver's call failed */
int gpu_fail_call(const struct mrg_gpu *gpu, const struct gpu_driver *driver, const char *stage,
		  const char *call, int result);
/** gpu_out_of_fds() - whether this process can open no file any more */
bool gpu_out_of_fds(void);

/* context.c: a device is current from enter to leave */

struct gpu_scope {
	struct gpu_driver *driver;
	bool pushed;
	bool retained;
	int ordinal;
	int before; /* HIP: device to go back to */
	int hip_error; /* HIP: the application's own last error */
};

/**
 * gpu_enter() - make a context of device @ordinal current
 * @ctx: CUDA: the pointer's own context, or NULL
 *
 * Nothing is pushed where one of that device is current already.
 * Return: 0; -ENOTCONN where the device has none (see MRG_GPU_CONTEXT), -EIO.
 */
int gpu_enter(struct mrg_gpu *gpu, struct gpu_driver *driver, int ordinal, void *ctx,
	      struct gpu_scope *scope);
/** gpu_enter_at() - the same, with the context that @addr was allocated in */
int gpu_enter_at(struct mrg_gpu *gpu, struct gpu_driver *driver, int ordinal, uint64_t addr,
		 struct gpu_scope *scope);
/** gpu_leave() - give back what enter took; keeps errno */
void gpu_leave(struct gpu_scope *scope);
void gpu_drop_contexts(struct mrg_gpu *gpu);

/* chunks.c, hostmem.c */

/** gpu_walk() - fill in the chunks of VMM memory.  0 or -errno. */
int gpu_walk(struct mrg_gpu *gpu, struct gpu_driver *driver, uint64_t addr, uint64_t length,
	     struct mrg_mem *mem);
uint64_t gpu_buffer_id(const struct gpu_driver *driver, uint64_t addr);
/** gpu_host_classify() - a range, as /proc/self/maps has it.
 *  @use_ioctl: ask PROCMAP_QUERY first (Linux 6.11) */
int gpu_host_classify(const struct mrg_gpu *gpu, uint64_t addr, uint64_t length, bool use_ioctl,
		      struct mrg_mem *mem);

/* devices.c */

/** gpu_open_modules() - NVIDIA's open kernel modules are loaded */
bool gpu_open_modules(void);

/* pci.c */

/** gpu_bar_size() - size of the memory BAR (BAR1 of NVIDIA's, BAR0 of
 *  AMD's) of a PCI function; 0 where not known */
uint64_t gpu_bar_size(const struct mrg_gpu *gpu, const char *pci);

#endif
