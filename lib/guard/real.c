/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "guard/bind.h"
#include "guard/real.h"

static const struct {
	const char *name;
	const char *version;
	const char *library;
} names[REAL_FNS] = {
	[REAL_REG_MR] = { "ibv_reg_mr", "IBVERBS_1.1", "libibverbs.so.1" },
	[REAL_REG_MR_IOVA] = { "ibv_reg_mr_iova", "IBVERBS_1.7", "libibverbs.so.1" },
	[REAL_REG_MR_IOVA2] = { "ibv_reg_mr_iova2", "IBVERBS_1.8", "libibverbs.so.1" },
	[REAL_REG_DMABUF_MR] = { "ibv_reg_dmabuf_mr", "IBVERBS_1.12", "libibverbs.so.1" },
	[REAL_REG_MR_EX] = { "ibv_reg_mr_ex", "IBVERBS_1.15", "libibverbs.so.1" },
	[REAL_MLX5_REG_DMABUF_MR] = { "mlx5dv_reg_dmabuf_mr", "MLX5_1.25", "libmlx5.so.1" },
	[REAL_REREG_MR] = { "ibv_rereg_mr", "IBVERBS_1.1", "libibverbs.so.1" },
	[REAL_DEREG_MR] = { "ibv_dereg_mr", "IBVERBS_1.1", "libibverbs.so.1" },
	[REAL_FORK_INIT] = { "ibv_fork_init", "IBVERBS_1.1", "libibverbs.so.1" },
	[REAL_QUERY_DEVICE] = { "ibv_query_device", "IBVERBS_1.1", "libibverbs.so.1" },
	[REAL_IS_FORK_INITIALIZED] = { "ibv_is_fork_initialized", "IBVERBS_1.13",
				       "libibverbs.so.1" },
	[REAL_DONTFORK_RANGE] = { "ibv_dontfork_range", "IBVERBS_1.1", "libibverbs.so.1" },
	[REAL_DOFORK_RANGE] = { "ibv_dofork_range", "IBVERBS_1.1", "libibverbs.so.1" },
};

struct library {
	_Atomic uintptr_t base; /* 0: free; library 0 has none */
	_Atomic uintptr_t fn[REAL_FNS];
	atomic_bool pinned;
};

static struct library libraries[REAL_LIBRARIES];

/* A library that went away would leave pointers into nothing. */
static void pin(struct library *library, uintptr_t address)
{
	Dl_info info;

	if (atomic_exchange(&library->pinned, true))
		return;
	if (dladdr((void *)address, &info) && info.dli_fname)
		dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

static void *by_handle(const char *file, enum guard_real_fn fn)
{
	void *handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
	void *address;

	if (!handle)
		return NULL;
	address = dlvsym(handle, names[fn].name, names[fn].version);
	dlclose(handle);
	return address;
}

/* The file that a library met by the audit library is. */
static const char *file_of(const struct library *library)
{
	Dl_info info;

	for (size_t i = 0; i < REAL_GUARDED; i++) {
		uintptr_t address = atomic_load(&library->fn[i]);

		if (address && dladdr((void *)address, &info))
			return info.dli_fname;
	}
	return NULL;
}

/*
 * The next after the guard in the program's own order of look-up (that may be
 * another library that stands before verbs); else verbs, loaded for a library
 * of the program alone; else what the audit library saw.
 */
static void *resolve(unsigned int lib, enum guard_real_fn fn)
{
	const char *file;
	void *address = NULL;

	if (!lib) {
		address = dlvsym(RTLD_NEXT, names[fn].name, names[fn].version);
		if (!address)
			address = by_handle(names[fn].library, fn);
	}
	for (unsigned int i = lib ? lib : 1; i < REAL_LIBRARIES && !address; i++) {
		file = file_of(&libraries[i]);
		if (file)
			address = by_handle(file, fn);
		if (lib)
			break;
	}
	return address;
}

void *guard_real(unsigned int lib, enum guard_real_fn fn)
{
	struct library *library = &libraries[lib];
	uintptr_t address = atomic_load_explicit(&library->fn[fn], memory_order_acquire);

	if (!address) {
		address = (uintptr_t)resolve(lib, fn);
		atomic_store_explicit(&library->fn[fn], address, memory_order_release);
	}
	if (address && !atomic_load_explicit(&library->pinned, memory_order_relaxed))
		pin(library, address);
	return (void *)address;
}

static bool same_name(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

/* One that has this base, and not another function of that name (a library that
 * was unloaded before it was used can have had the same base). */
static bool fits(struct library *library, uintptr_t base, size_t fn, uintptr_t address)
{
	uintptr_t known, none = 0;

	if (atomic_load(&library->base) != base &&
	    !atomic_compare_exchange_strong(&library->base, &none, base))
		return false;
	known = 0;
	return atomic_compare_exchange_strong(&library->fn[fn], &known, address) ||
	       known == address;
}

static atomic_ulong unseen;

unsigned long guard_bind_unseen(void)
{
	return atomic_load(&unseen);
}

uintptr_t mrguard_guard_bind(const char *name, uintptr_t address, uintptr_t base)
{
	size_t fn = 0;

	while (fn < REAL_GUARDED && !same_name(names[fn].name, name))
		fn++;
	if (fn == REAL_GUARDED)
		return address;
	for (size_t lib = 1; lib < REAL_LIBRARIES; lib++)
		if (fits(&libraries[lib], base, fn, address))
			return (uintptr_t)guard_real_entries[lib][fn];
	atomic_fetch_add(&unseen, 1);
	return address;
}
