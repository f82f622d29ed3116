/* SPDX-License-Identifier: MIT */
/*
 * libmrguard-audit.so, for LD_AUDIT (rtld-audit(7)): binds symbols that a program
 * looks up by name (dlsym, dlvsym) to the guard, which preloading alone cannot.
 * NCCL finds libibverbs that way.
 *
 * The loader puts an audit library and all that it needs into a namespace of
 * their own; so this one needs nothing, not even libc.  It has no functions for
 * PLT calls, and glibc 2.35 and later then makes those at full speed.
 */
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guard/calls.h"

#define API __attribute__((visibility("default")))

/* The guard's mrguard_guard_bind(), found in the program's namespace. */
typedef uintptr_t bind_fn(const char *name, uintptr_t address, uintptr_t base);

static bind_fn *bind;
static bool started; /* the libraries that the program starts with are relocated */

/* The tables of a library's exported symbols. */
struct exports {
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Half) * versions;
	const uint32_t *hash; /* DT_GNU_HASH */
};

/* The loader has added the base already, where the table can be written. */
static const void *pointer_of(const struct link_map *map, ElfW(Addr) value)
{
	return (const void *)(value < map->l_addr ? value + map->l_addr : value);
}

static bool exports_of(const struct link_map *map, struct exports *out)
{
	*out = (struct exports){ 0 };
	for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			out->symbols = pointer_of(map, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRTAB)
			out->strings = pointer_of(map, d->d_un.d_ptr);
		else if (d->d_tag == DT_VERSYM)
			out->versions = pointer_of(map, d->d_un.d_ptr);
		else if (d->d_tag == DT_GNU_HASH)
			out->hash = pointer_of(map, d->d_un.d_ptr);
	}
	return out->symbols && out->strings && out->hash;
}

static bool equal(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

static uint32_t hash_of(const char *name)
{
	uint32_t h = 5381;

	while (*name)
		h = h * 33 + (unsigned char)*name++;
	return h;
}

/* The format of DT_GNU_HASH: bucket count, first symbol, filter words, shift;
 * filter; buckets; chains whose last entry has bit 0 set. */
static const ElfW(Sym) * find(const struct exports *e, const char *name)
{
	uint32_t buckets = e->hash[0], first = e->hash[1], words = e->hash[2];
	const uint32_t *bucket = e->hash + 4 + words * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = bucket + buckets;
	uint32_t want = hash_of(name), at, h;

	if (!buckets)
		return NULL;
	at = bucket[want % buckets];
	if (at < first)
		return NULL;
	do {
		h = chain[at - first];
		if ((h | 1) == (want | 1) && e->symbols[at].st_shndx != SHN_UNDEF &&
		    equal(e->strings + e->symbols[at].st_name, name))
			return &e->symbols[at];
		at++;
	} while (!(h & 1));
	return NULL;
}

static const ElfW(Sym) * find_in(const struct link_map *map, const char *name)
{
	struct exports e;

	return exports_of(map, &e) ? find(&e, name) : NULL;
}

API unsigned int la_version(unsigned int version)
{
	return version < LAV_CURRENT ? version : LAV_CURRENT;
}

/* The loader reports a binding where the caller's library has LA_FLG_BINDFROM and
 * the other one LA_FLG_BINDTO. */
API unsigned int la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie)
{
	const ElfW(Sym) * own;

	*cookie = (uintptr_t)map;
	if (lmid != LM_ID_BASE)
		return 0;
	own = find_in(map, "mrguard_guard_bind");
	if (own) {
		bind = (bind_fn *)(map->l_addr + own->st_value);
		return LA_FLG_BINDFROM;
	}
	if (find_in(map, "ibv_reg_mr") || find_in(map, "mlx5dv_reg_dmabuf_mr") ||
	    find_in(map, "ibv_reg_dmabuf_mr"))
		return LA_FLG_BINDFROM | LA_FLG_BINDTO;
	return LA_FLG_BINDFROM;
}

API void la_activity(uintptr_t *cookie, unsigned int flag)
{
	(void)cookie;
	(void)flag;
}

/* From here on the guard is relocated and can be called. */
API void la_preinit(uintptr_t *cookie)
{
	(void)cookie;
	started = true;
}

/* A hidden symbol is an old version, with another interface. */
static bool is_current(const struct link_map *map, unsigned int index)
{
	struct exports e;

	return exports_of(map, &e) && (!e.versions || !(e.versions[index] & 0x8000));
}

API uintptr_t la_symbind64(Elf64_Sym *sym, unsigned int index, uintptr_t *from, uintptr_t *to,
			   unsigned int *flags, const char *name)
{
	const struct link_map *caller = (const struct link_map *)*from;
	const struct link_map *library = (const struct link_map *)*to;
	size_t i = 0;

	(void)flags;
	while (i < GUARD_REPLACED && !equal(guard_calls[i], name))
		i++;
	if (i == GUARD_REPLACED || !bind || !started || !is_current(library, index))
		return sym->st_value;
	/* A caller that has the symbol itself replaces it too, as the guard does,
	 * and looks for the function behind its own. */
	if (find_in(caller, name))
		return sym->st_value;
	return bind(name, sym->st_value, library->l_addr);
}
