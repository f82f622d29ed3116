/* SPDX-License-Identifier: MIT */
/*
 * The questions that mrguard_walk.ko asks a running kernel (kmod/walk.c), asked
 * of a function on its own; and the test that a layout is the right one.
 */
#include <string.h>
#include <sys/mman.h>

#include "kernelcode/kernelcode.h"
#include "uapi/mrguard.h"

#define MAX_ENTRIES 4
#define MAX_BLOCKS 8
#define SG_ROOM 64
#define OBJECT_SIZE 512
#define FILL 0x00

#define GIB (1ULL << 30)
#define MIB (1ULL << 20)
#define HIGH (1ULL << 44)

struct entry {
	uint64_t address;
	uint64_t length;
};

/* What a function gets to see, with a copy that shows what it wrote. */
struct arena {
	uint8_t list[MAX_ENTRIES * SG_ROOM];
	uint8_t object[OBJECT_SIZE]; /* struct ib_block_iter or struct ib_umem */
};
static struct arena *arena;
static struct arena copy;
static const struct kernelcode_layout *layout;

static void put(uint8_t *at, uint32_t offset, uint64_t value, size_t size)
{
	if (offset <= OBJECT_SIZE - size)
		memcpy(at + offset, &value, size);
}

static uint64_t get(const uint8_t *at, uint32_t offset)
{
	uint64_t value;

	memcpy(&value, at + offset, sizeof(value));
	return value;
}

static void set_list(const struct entry *entries, size_t count)
{
	memset(arena, FILL, sizeof(*arena));
	kernelcode_sg_size = layout->sg_size;
	for (size_t i = 0; i < count; i++) {
		uint8_t *sg = arena->list + i * kernelcode_sg_size;

		put(sg, 0, i + 1 == count ? KERNELCODE_SG_LAST : 0, 8);
		put(sg, layout->sg_address, entries[i].address, 8);
		put(sg, layout->sg_dma_length, entries[i].length, 4);
	}
}

static bool fits_in_room(const uint32_t *offsets, size_t count, uint32_t room)
{
	for (size_t i = 0; i < count; i++)
		if (offsets[i] > room - 8)
			return false;
	return true;
}

static bool list_fits(const struct kernelcode_layout *l)
{
	const uint32_t offsets[] = { l->sg_address, l->sg_dma_length };

	return l->sg_size >= 8 && l->sg_size <= SG_ROOM && fits_in_room(offsets, 2, SG_ROOM);
}

/* Whether the object differs from the copy but in @field, of 8 bytes. */
static bool only_changed(const uint32_t *fields, const size_t *sizes, size_t count,
			 struct kernelcode_why *why)
{
	for (size_t i = 0; i < count; i++)
		memcpy(copy.object + fields[i], arena->object + fields[i], sizes[i]);
	return !memcmp(arena, &copy, sizeof(copy)) ||
	       kernelcode_fails(why, "The function wrote where it should not.");
}

/* ---- the walk ---- */

struct walked {
	uint64_t blocks[MAX_BLOCKS];
	size_t count;
	bool ended;
};

static bool next(const void *code, bool *more, struct kernelcode_why *why)
{
	const uint32_t fields[] = { layout->iter_sg, layout->iter_address, layout->iter_nents,
				    layout->iter_advance };
	const size_t sizes[] = { 8, 8, 4, 4 };
	uint64_t result = 0;

	copy = *arena;
	if (!kernelcode_call(code, (uintptr_t)arena->object, 0, 0, &result, why))
		return false;
	*more = result & 0xff;
	return only_changed(fields, sizes, 4, why);
}

/* At most @limit blocks: some walks never end. */
static bool walk(const void *code, const struct entry *entries, size_t count, uint32_t bit,
		 size_t limit, struct walked *out, struct kernelcode_why *why)
{
	bool more = true;

	memset(out, 0, sizeof(*out));
	set_list(entries, count);
	put(arena->object, layout->iter_sg, (uintptr_t)arena->list, 8);
	put(arena->object, layout->iter_nents, count, 4);
	put(arena->object, layout->iter_bit, bit, 4);
	while (out->count < limit) {
		if (!next(code, &more, why))
			return false;
		if (!more)
			break;
		out->blocks[out->count++] = get(arena->object, layout->iter_address) &
					    ~((1ULL << bit) - 1);
	}
	out->ended = !more;
	return true;
}

static bool walks_right(const void *code, const struct entry *entries, size_t count, uint32_t bit,
			const uint64_t *right, size_t blocks, struct kernelcode_why *why)
{
	struct walked w;

	if (!walk(code, entries, count, bit, MAX_BLOCKS, &w, why))
		return false;
	return (w.ended && w.count == blocks &&
		!memcmp(w.blocks, right, blocks * sizeof(*right))) ||
	       kernelcode_fails(why, "The function walks pages of 2^%u in no way that is known.",
				bit);
}

/* Lists that every kernel walks right: pages of 4 KiB to 1 GiB, whole or cut at both ends. */
static bool walk_fits(const void *code, struct kernelcode_why *why)
{
	for (uint32_t bit = 12; bit <= 30; bit++) {
		const uint64_t page = 1ULL << bit, half = bit == 12 ? 0 : page / 2;
		const uint64_t a = HIGH + 3 * page, b = 5 * HIGH + page, c = 7 * page;
		const struct entry entries[] = { { a + half, 2 * page - half },
						 { b, 2 * page },
						 { c, page - half } };
		const uint64_t right[] = { a, a + page, b, b + page, c };

		if (!walks_right(code, entries, 3, bit, right, 5, why) ||
		    !walks_right(code, entries, 1, bit, right, 2, why))
			return false;
	}
	return true;
}

static bool ask(const void *code, uint32_t *bits, struct kernelcode_why *why)
{
	/* The same lists as in kmod/walk.c, where the bits are explained. */
	const struct entry neighbours[] = { { 2 * MIB, MIB }, { 3 * MIB, MIB } };
	const struct entry long_one[] = { { HIGH, 0xfffff000 } };
	struct entry large[MAX_ENTRIES];
	struct walked w;

	for (size_t i = 0; i < MAX_ENTRIES; i++)
		large[i] = (struct entry){ HIGH + i * 2 * GIB, 2 * GIB };
	if (!walk(code, neighbours, 2, 21, 2, &w, why))
		return false;
	*bits = MRG_WALK_INFO_KNOWN | (w.count == 1 ? MRG_WALK_INFO_CROSSES : 0);
	if (!walk(code, large, MAX_ENTRIES, 32, 2, &w, why))
		return false;
	*bits |= w.count == 2 && w.blocks[1] == HIGH ? MRG_WALK_INFO_OFFSET32 : 0;
	if (!walk(code, long_one, 1, 31, 3, &w, why))
		return false;
	*bits |= w.count == 3 ? MRG_WALK_INFO_NARROW : 0;
	/* Drivers count down this field around the call. */
	*bits |= layout->iter_numblocks == KERNELCODE_NONE ? MRG_WALK_INFO_UNBOUNDED : 0;
	return true;
}

static bool walk_layout_fits(const struct kernelcode_layout *l)
{
	const uint32_t offsets[] = { l->iter_sg, l->iter_address, l->iter_nents, l->iter_advance,
				     l->iter_bit };

	return list_fits(l) && fits_in_room(offsets, 5, OBJECT_SIZE);
}

bool kernelcode_ask_prepare(void)
{
	arena = mmap(NULL, sizeof(*arena), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	return arena != MAP_FAILED;
}

bool kernelcode_ask_walk(const void *code, const struct kernelcode_layout *layouts, size_t count,
			 struct kernelcode_layout *chosen, uint32_t *bits,
			 struct kernelcode_why *why)
{
	struct kernelcode_why first = { "" };

	for (size_t i = 0; i < count; i++) {
		layout = &layouts[i];
		if (walk_layout_fits(layout) && walk_fits(code, why)) {
			*chosen = *layout;
			return ask(code, bits, why);
		}
		if (!first.text[0])
			first = *why;
	}
	*why = first;
	return false;
}

/* ---- the pick ---- */

static bool pick(const void *code, const struct entry *entries, size_t count, uint64_t iova,
		 uint64_t *page, struct kernelcode_why *why)
{
	const uint32_t fields[] = { layout->umem_iova };
	const size_t sizes[] = { 8 };
	uint64_t length = 0;

	for (size_t i = 0; i < count; i++)
		length += entries[i].length;
	set_list(entries, count);
	put(arena->object, layout->umem_iova, iova, 8);
	put(arena->object, layout->umem_length, length, 8);
	put(arena->object, layout->umem_address, iova, 8);
	put(arena->object, layout->umem_list, (uintptr_t)arena->list, 8);
	put(arena->object, layout->umem_list + 8, count | (uint64_t)count << 32, 8);
	put(arena->object, layout->umem_nmap, count, 4);
	copy = *arena;
	return kernelcode_call(code, (uintptr_t)arena->object, ~0xfffULL, iova, page, why) &&
	       only_changed(fields, sizes, 1, why);
}

/* Two entries of a page each, apart: every kernel picks that page.  From 64 KiB
 * on, for none is larger than the host's. */
static bool pick_fits(const void *code, struct kernelcode_why *why)
{
	for (uint32_t bit = 16; bit <= 30; bit++) {
		const uint64_t page = 1ULL << bit;
		const struct entry entries[] = { { HIGH + page, page }, { 5 * HIGH, page } };
		uint64_t got = 0;

		if (!pick(code, entries, 2, 4 * HIGH, &got, why))
			return false;
		if (got != page)
			return kernelcode_fails(
				why, "The function picks pages of 2^%u in no way that is known.",
				bit);
	}
	return true;
}

static bool pick_layout_fits(const struct kernelcode_layout *l)
{
	const uint32_t offsets[] = { l->umem_iova, l->umem_length, l->umem_address, l->umem_list,
				     l->umem_list + 8 };

	return list_fits(l) && fits_in_room(offsets, 5, OBJECT_SIZE);
}

bool kernelcode_ask_pick(const void *code, const struct kernelcode_layout *layouts, size_t count,
			 struct kernelcode_layout *chosen, uint32_t *shift,
			 struct kernelcode_why *why)
{
	struct kernelcode_why first = { "" };
	struct entry large[MAX_ENTRIES];
	uint64_t page = 0;

	for (size_t i = 0; i < MAX_ENTRIES; i++)
		large[i] = (struct entry){ HIGH + i * 2 * GIB, 2 * GIB };
	for (size_t i = 0; i < count; i++) {
		layout = &layouts[i];
		if (pick_layout_fits(layout) && pick_fits(code, why)) {
			*chosen = *layout;
			if (!pick(code, large, MAX_ENTRIES, HIGH, &page, why))
				return false;
			*shift = page ? (uint32_t)__builtin_ctzll(page) : 0;
			return true;
		}
		if (!first.text[0])
			first = *why;
	}
	*why = first;
	return false;
}
