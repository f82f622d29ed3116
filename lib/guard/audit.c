/* SPDX-License-Identifier: MIT */
/*
 * libmrguard-audit.so, for LD_AUDIT (rtld-audit(7)): sees symbols that are looked
 * up in a library by name (dlsym, dlvsym), which no preloaded library does, and
 * has them bound to the guard.  NCCL comes to libibverbs that way.
 *
 * The loader keeps it in a namespace of its own, with whatever it needs; so it
 * needs nothing, libc included.  Without functions for PLT calls glibc 2.35 and
 * later lets those run as if nobody listened.
 */
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

/* Bound late to a function that the caller finds by itself. */
typedef uintptr_t bind_fn(const char *name, uintptr_t address, uintptr_t base);

static bind_fn *bind;
static bool started; /* the program's own libraries are relocated */

static const char *const guarded[] = {
	"ibv_reg_mr",	     "ibv_reg_mr_iova", "ibv_reg_mr_iova2",
	"ibv_reg_dmabuf_mr", "ibv_reg_mr_ex",	"ibv_rereg_mr",
	"ibv_dereg_mr",	     "ibv_fork_init",	"mlx5dv_reg_dmabuf_mr",
};
#define GUARDED (sizeof(guarded) / sizeof(guarded[0]))

/* What a library exports. */
struct exports {
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Half) * versions;
	const uint32_t *hash; /* DT_GNU_HASH */
};

/* The loader adds the base to these where it can write them. */
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

/* Bindings are told of where one end asks to be told of those it makes, and the
 * other of those made to it. */
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

/* All of the start is done: the guard is relocated too, and can be called. */
API void la_preinit(uintptr_t *cookie)
{
	(void)cookie;
	started = true;
}

/* Old versions of a symbol, hidden ones, have another interface. */
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
	while (i < GUARDED && !equal(guarded[i], name))
		i++;
	if (i == GUARDED || !bind || !started || !is_current(library, index))
		return sym->st_value;
	/* One that has the symbol too stands before the library, as the guard
	 * itself does, and asks for what comes after it. */
	if (find_in(caller, name))
		return sym->st_value;
	return bind(name, sym->st_value, library->l_addr);
}
