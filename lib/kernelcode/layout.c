/* SPDX-License-Identifier: MIT */
#include <linux/btf.h>
#include <string.h>

#include "kernelcode/kernelcode.h"

#define NONE KERNELCODE_NONE

/* ---- out of BTF ---- */

/*
 * BTF (Documentation/bpf/btf.rst) as far as structures go.  A module's is split: its
 * names are numbered on from those of the kernel's, which is its base.  libbpf
 * opens split BTF by path alone, and this process may open nothing.
 */
struct btf {
	const uint8_t *types, *types_end;
	const char *names;
	uint32_t names_size;
	const struct btf *base;
};

static bool open_btf(struct btf *btf, const uint8_t *data, size_t size, const struct btf *base)
{
	struct btf_header h;

	if (!data || size < sizeof(h))
		return false;
	memcpy(&h, data, sizeof(h));
	if (h.magic != BTF_MAGIC || h.version != BTF_VERSION || h.hdr_len > size)
		return false;
	size -= h.hdr_len;
	if (h.type_off > size || h.type_len > size - h.type_off || h.str_off > size || !h.str_len ||
	    h.str_len > size - h.str_off)
		return false;
	btf->types = data + h.hdr_len + h.type_off;
	btf->types_end = btf->types + h.type_len;
	btf->names = (const char *)data + h.hdr_len + h.str_off;
	btf->names_size = h.str_len;
	btf->base = base;
	return !btf->names[h.str_len - 1];
}

static const char *name_at(const struct btf *btf, uint32_t offset)
{
	if (btf->base && offset < btf->base->names_size)
		return btf->base->names + offset;
	offset -= btf->base ? btf->base->names_size : 0;
	return offset < btf->names_size ? btf->names + offset : "";
}

/* Bytes that follow a type of kind @kind with @count parts; -1: a kind not known here. */
static long tail_of(uint32_t kind, uint32_t count)
{
	switch (kind) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return 4;
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_DATASEC:
	case BTF_KIND_ENUM64:
		return 12L * count;
	case BTF_KIND_ENUM:
	case BTF_KIND_FUNC_PROTO:
		return 8L * count;
	default:
		return kind <= BTF_KIND_ENUM64 ? 0 : -1;
	}
}

/* Copies the head of structure @name; NULL, or where its members lie. */
static const uint8_t *find_in(const struct btf *btf, const char *name, struct btf_type *type)
{
	const uint8_t *at = btf->types;
	long tail;

	for (; (size_t)(btf->types_end - at) >= sizeof(*type); at += tail) {
		memcpy(type, at, sizeof(*type));
		at += sizeof(*type);
		tail = tail_of(BTF_INFO_KIND(type->info), BTF_INFO_VLEN(type->info));
		if (tail < 0 || tail > btf->types_end - at)
			return NULL;
		if (BTF_INFO_KIND(type->info) == BTF_KIND_STRUCT &&
		    !strcmp(name_at(btf, type->name_off), name))
			return at;
	}
	return NULL;
}

struct structure {
	const struct btf *owner; /* of its members' names; NULL: it was not found */
	struct btf_type type;
	const uint8_t *members;
};

static struct structure find(const struct btf *btf, const char *name)
{
	struct structure s = { .owner = btf };

	for (; s.owner; s.owner = s.owner->base) {
		s.members = find_in(s.owner, name, &s.type);
		if (s.members)
			break;
	}
	return s;
}

/* A member's offset; NONE where it is not there or is a bit field. */
static uint32_t offset_of(const struct structure *s, const char *member)
{
	struct btf_member m;

	for (uint32_t i = 0; s->owner && i < BTF_INFO_VLEN(s->type.info); i++) {
		memcpy(&m, s->members + i * sizeof(m), sizeof(m));
		if (strcmp(name_at(s->owner, m.name_off), member))
			continue;
		if (BTF_INFO_KFLAG(s->type.info))
			m.offset = BTF_MEMBER_BIT_OFFSET(m.offset);
		return m.offset % 8 ? NONE : m.offset / 8;
	}
	return NONE;
}

static void read_layout(const struct btf *btf, struct kernelcode_layout *l)
{
	const struct structure sg = find(btf, "scatterlist");
	const struct structure iter = find(btf, "ib_block_iter");
	const struct structure umem = find(btf, "ib_umem");

	*l = (struct kernelcode_layout){
		.from_btf = true,
		.sg_size = sg.owner ? sg.type.size : NONE,
		.sg_offset = offset_of(&sg, "offset"),
		.sg_length = offset_of(&sg, "length"),
		.sg_address = offset_of(&sg, "dma_address"),
		.sg_dma_length = offset_of(&sg, "dma_length"),
		.iter_sg = offset_of(&iter, "__sg"),
		.iter_address = offset_of(&iter, "__dma_addr"),
		.iter_numblocks = offset_of(&iter, "__sg_numblocks"),
		.iter_nents = offset_of(&iter, "__sg_nents"),
		.iter_advance = offset_of(&iter, "__sg_advance"),
		.iter_bit = offset_of(&iter, "__pg_bit"),
		.umem_iova = offset_of(&umem, "iova"),
		.umem_length = offset_of(&umem, "length"),
		.umem_address = offset_of(&umem, "address"),
		.umem_list = offset_of(&umem, "sgt_append"),
		.umem_nmap = offset_of(&umem, "nmap"),
	};
	if (l->umem_list == NONE)
		l->umem_list = offset_of(&umem, "sg_head");
}

static bool from_btf(const void *data, size_t size, const void *base_data, size_t base_size,
		     struct kernelcode_layout *layout)
{
	struct btf base, btf;

	if (!open_btf(&base, base_data, base_size, NULL) || !open_btf(&btf, data, size, &base))
		return false;
	read_layout(&btf, layout);
	return true;
}

/* ---- as kernels had them ---- */

/*
 * struct ib_block_iter got __sg_numblocks in 6.8 and in the stable series that
 * took 4fbc3a52cd4d.  struct ib_umem lost its work in 6.2 (b83cfd0a24ad) and
 * got a pointer in 7.1; before 5.15 its list was a table with a count behind it.
 */
static const struct {
	uint32_t nents, advance, bit, numblocks;
} iters[] = { { 24, 28, 32, 16 }, { 16, 20, 24, NONE } };

static const struct {
	uint32_t size, length;
} lists[] = { { 32, 24 }, { 24, 12 } };

static const struct {
	uint32_t list, nmap;
} umems[] = { { 0x30, NONE }, { 0x38, NONE }, { 0x50, NONE }, { 0x50, 0x60 } };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct kernelcode_layout tried(size_t list, size_t iter, size_t umem)
{
	return (struct kernelcode_layout){
		.sg_size = lists[list].size,
		.sg_offset = 8,
		.sg_length = 12,
		.sg_address = 16,
		.sg_dma_length = lists[list].length,
		.iter_sg = 0,
		.iter_address = 8,
		.iter_numblocks = iters[iter].numblocks,
		.iter_nents = iters[iter].nents,
		.iter_advance = iters[iter].advance,
		.iter_bit = iters[iter].bit,
		.umem_iova = 0x10,
		.umem_length = 0x18,
		.umem_address = 0x20,
		.umem_list = umems[umem].list,
		.umem_nmap = umems[umem].nmap,
	};
}

size_t kernelcode_layouts(const void *btf, size_t btf_size, const void *base, size_t base_size,
			  struct kernelcode_layout *layouts, size_t room)
{
	size_t count = from_btf(btf, btf_size, base, base_size, &layouts[0]);

	for (size_t list = 0; list < COUNT(lists); list++)
		for (size_t other = 0; other < COUNT(umems) && count < room; other++)
			layouts[count++] = tried(list, other % COUNT(iters), other);
	return count;
}
