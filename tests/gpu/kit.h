/* SPDX-License-Identifier: MIT */
/*
 * For the programs of this folder: CUDA by dlopen, processes in pairs, and one
 * row a bar.
 *
 * CUDA does not survive fork(), so main() never touches it: each test runs in
 * children, which set it up themselves, and a crash is a failed row.
 */
#ifndef GPU_KIT_H
#define GPU_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <mrguard/share.h>

#include "gpu/abi.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

/* ---- rows ---- */

/** kit_row() - a bar: TAP, with the figure after a bar character */
__attribute__((format(printf, 3, 4))) void kit_row(bool pass, const char *bar, const char *figure,
						   ...);
/** kit_speed_row() - a bar about speed, which the double does not have */
__attribute__((format(printf, 3, 4))) void kit_speed_row(bool pass, const char *bar,
							 const char *figure, ...);
/** kit_done() - the plan; the exit status */
int kit_done(void);

/* ---- CUDA as an application uses it ---- */

struct kit_cuda {
	int (*init)(unsigned int);
	int (*primary_retain)(void **ctx, int device);
	int (*primary_state)(int device, unsigned int *flags, int *active);
	int (*set_current)(void *ctx);
	int (*get_current)(void **ctx);
	int (*device_name)(char *name, int length, int device);
	int (*driver_version)(int *version);
	int (*alloc)(uint64_t *ptr, size_t size);
	int (*free)(uint64_t ptr);
	int (*alloc_managed)(uint64_t *ptr, size_t size, unsigned int flags);
	int (*alloc_async)(uint64_t *ptr, size_t size, void *stream);
	int (*free_async)(uint64_t ptr, void *stream);
	int (*host_alloc)(void **ptr, size_t size, unsigned int flags);
	int (*host_free)(void *ptr);
	int (*to_device)(uint64_t to, const void *from, size_t size);
	int (*to_host)(void *to, uint64_t from, size_t size);
	int (*copy_async)(uint64_t to, uint64_t from, size_t size, void *stream);
	int (*info)(size_t *free, size_t *total);
	int (*synchronize)(void);
	int (*event_create)(void **event, unsigned int flags);
	int (*event_record)(void *event, void *stream);
	int (*event_synchronize)(void *event);
	int (*event_elapsed)(float *ms, void *from, void *to);
	int (*create)(uint64_t *handle, size_t size, const struct gpu_prop *prop,
		      unsigned long long flags);
	int (*retain)(uint64_t *handle, void *addr);
	int (*release)(uint64_t handle);
	int (*export_handle)(void *out, uint64_t handle, int type, unsigned long long flags);
	int (*import_handle)(uint64_t *handle, void *os_handle, int type);
	int (*reserve)(uint64_t *ptr, size_t size, size_t alignment, uint64_t hint,
		       unsigned long long flags);
	int (*address_free)(uint64_t ptr, size_t size);
	int (*map)(uint64_t ptr, size_t size, size_t offset, uint64_t handle,
		   unsigned long long flags);
	int (*unmap)(uint64_t ptr, size_t size);
	int (*set_access)(uint64_t ptr, size_t size, const struct gpu_access *desc, size_t count);
};
extern struct kit_cuda cu;

/** kit_die() - end this child; its text is the failed row's figure */
__attribute__((noreturn, format(printf, 1, 2))) void kit_die(const char *format, ...);
#define CU(call)                                               \
	do {                                                   \
		int result_ = (call);                          \
		if (result_)                                   \
			kit_die("%s gave %d", #call, result_); \
	} while (0)
#define MUST(condition)                                                               \
	do {                                                                          \
		if (!(condition))                                                     \
			kit_die("%s:%d: not so: %s", __FILE__, __LINE__, #condition); \
	} while (0)
/* A call of libmrguard on @handle (mrg_share_* or mrg_gpu_*). */
#define MRG(kind, handle, call)                                               \
	do {                                                                  \
		int ret_ = (call);                                            \
		struct mrg_error error_ = { 0 };                              \
		mrg_##kind##_last_error(handle, &error_);                     \
		if (ret_)                                                     \
			kit_die("%s gave %d: %s", #call, ret_, error_.cause); \
	} while (0)

/** kit_available() - whether there is a GPU, asked in a child */
bool kit_available(char *what, size_t size);
/** kit_start() - set CUDA up, with device 0's primary context current */
void kit_start(void);
/** kit_start_bare() - without a context */
void kit_start_bare(void);

struct kit_chunk {
	uint64_t size;
	int handle_types;
	bool rdma;
	bool hole;
};
struct kit_vmm {
	uint64_t addr, size;
};
struct kit_vmm kit_vmm(const struct kit_chunk *chunks, size_t count);
struct kit_vmm kit_vmm_equal(size_t count, uint64_t size);
void kit_vmm_free(struct kit_vmm vmm);

/** kit_fill(), kit_verify() - every byte of device memory.  The second returns
 *  the number of wrong 8-byte words. */
void kit_fill(uint64_t addr, uint64_t size, uint64_t seed);
uint64_t kit_verify(uint64_t addr, uint64_t size, uint64_t seed);

/* ---- processes ---- */

/* What children tell; in memory that they share with main(). */
struct kit_shared {
	char text[512];
	double value[16];
	bool flag[16];
	uint64_t rows;
};
extern struct kit_shared *shared;

/* Runs in a child; @peer is a socket to the other one, or -1. */
typedef void (*kit_child)(int peer);
/** kit_one() - 0 if @child ended well */
int kit_one(kit_child child);
/** kit_pair() - both at once: 0 if both ended well */
int kit_pair(kit_child owner, kit_child importer);
/** kit_expect_killed() - which of the next pair is to end by SIGKILL */
void kit_expect_killed(bool owner, bool importer);

/** kit_send(), kit_receive() - bytes between the two; an empty message is a
 *  signal */
void kit_send(int peer, const void *bytes, size_t size);
size_t kit_receive(int peer, void *bytes, size_t room);
void kit_signal(int peer);
void kit_wait(int peer);

double kit_now(void);
int kit_fds(void);
long kit_address_space(void); /* KiB */
long kit_resident(void); /* KiB */
double kit_median(double *values, size_t count);
/** kit_scaled() - @size, or on the double, where device memory is the host's,
 *  a part of it */
uint64_t kit_scaled(uint64_t size);
bool kit_is_double(void);

/* Handles of libmrguard with a GPU. */
struct kit_ends {
	struct mrg_gpu *gpu;
	struct mrg_share *share;
};
struct kit_ends kit_open(const char *dir);
void kit_close(struct kit_ends *ends);
/** kit_publish() - publish, and send the token to the peer */
struct mrg_range *kit_publish(struct kit_ends *ends, int peer, uint64_t addr, uint64_t size);
/** kit_import() - receive a token, and import */
struct mrg_import *kit_import(struct kit_ends *ends, int peer);

#endif
