/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "guard/real.h"

/* Where the loader finds them: the version that programs ask for, and the library. */
static const struct {
	const char *version;
	const char *library;
} origin[GUARD_CALLS] = {
	[GUARD_REG_MR] = { "IBVERBS_1.1", "libibverbs.so.1" },
	[GUARD_REG_MR_IOVA] = { "IBVERBS_1.7", "libibverbs.so.1" },
	[GUARD_REG_MR_IOVA2] = { "IBVERBS_1.8", "libibverbs.so.1" },
	[GUARD_REG_DMABUF_MR] = { "IBVERBS_1.12", "libibverbs.so.1" },
	[GUARD_REG_MR_EX] = { "IBVERBS_1.15", "libibverbs.so.1" },
	[GUARD_MLX5_REG_DMABUF_MR] = { "MLX5_1.25", "libmlx5.so.1" },
	[GUARD_REREG_MR] = { "IBVERBS_1.1", "libibverbs.so.1" },
	[GUARD_DEREG_MR] = { "IBVERBS_1.1", "libibverbs.so.1" },
	[GUARD_FORK_INIT] = { "IBVERBS_1.1", "libibverbs.so.1" },
	[GUARD_QUERY_DEVICE] = { "IBVERBS_1.1", "libibverbs.so.1" },
	[GUARD_IS_FORK_INITIALIZED] = { "IBVERBS_1.13", "libibverbs.so.1" },
	[GUARD_DONTFORK_RANGE] = { "IBVERBS_1.1", "libibverbs.so.1" },
	[GUARD_DOFORK_RANGE] = { "IBVERBS_1.1", "libibverbs.so.1" },
};

struct library {
	_Atomic uintptr_t base; /* 0: free, and always 0 of library 0 */
	_Atomic uintptr_t fn[GUARD_CALLS];
	atomic_bool pinned;
};

static struct library libraries[GUARD_LIBRARIES];

/* If the library were unloaded, the pointers to its functions would dangle. */
static void pin(struct library *library, uintptr_t address)
{
	Dl_info info;

	if (atomic_exchange(&library->pinned, true))
		return;
	if (dladdr((void *)address, &info) && info.dli_fname)
		dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

static void *by_handle(const char *file, enum guard_call call)
{
	void *handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
	void *address;

	if (!handle)
		return NULL;
	address = dlvsym(handle, guard_calls[call], origin[call].version);
	dlclose(handle);
	return address;
}

/* The file of a library that the audit library met. */
static const char *file_of(const struct library *library)
{
	Dl_info info;

	for (size_t i = 0; i < GUARD_REPLACED; i++) {
		uintptr_t address = atomic_load(&library->fn[i]);

		if (address && dladdr((void *)address, &info))
			return info.dli_fname;
	}
	return NULL;
}

/*
 * For library 0: the next function after the guard's in the program's order of
 * look-up, which another preloaded library may own; else libibverbs, where only
 * one of the program's libraries can look into it; else a library that the audit
 * library met.
 */
static void *resolve(unsigned int lib, enum guard_call call)
{
	const char *file;
	void *address = NULL;

	if (!lib) {
		address = dlvsym(RTLD_NEXT, guard_calls[call], origin[call].version);
		if (!address)
			address = by_handle(origin[call].library, call);
	}
	for (unsigned int i = lib ? lib : 1; i < GUARD_LIBRARIES && !address; i++) {
		file = file_of(&libraries[i]);
		if (file)
			address = by_handle(file, call);
		if (lib)
			break;
	}
	return address;
}

void *guard_real(unsigned int lib, enum guard_call call)
{
	struct library *library = &libraries[lib];
	uintptr_t address = atomic_load_explicit(&library->fn[call], memory_order_acquire);

	if (!address) {
		address = (uintptr_t)resolve(lib, call);
		atomic_store_explicit(&library->fn[call], address, memory_order_release);
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

/* Whether the library at @base, or a free place, can take the function.  A library
 * that was unloaded unused can have had the same base, and another function. */
static bool take(struct library *library, uintptr_t base, enum guard_call call, uintptr_t address)
{
	uintptr_t none = 0, known = 0;

	if (atomic_load(&library->base) != base &&
	    !atomic_compare_exchange_strong(&library->base, &none, base))
		return false;
	return atomic_compare_exchange_strong(&library->fn[call], &known, address) ||
	       known == address;
}

static atomic_ulong unguarded;

unsigned long guard_real_unguarded(void)
{
	return atomic_load(&unguarded);
}

unsigned int guard_real_note(const char *name, uintptr_t address, uintptr_t base,
			     enum guard_call *call)
{
	*call = 0;
	while (*call < GUARD_REPLACED && !same_name(guard_calls[*call], name))
		(*call)++;
	if (*call == GUARD_REPLACED)
		return 0;
	for (unsigned int lib = 1; lib < GUARD_LIBRARIES; lib++)
		if (take(&libraries[lib], base, *call, address))
			return lib;
	atomic_fetch_add(&unguarded, 1);
	return 0;
}
