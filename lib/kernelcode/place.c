/* SPDX-License-Identifier: MIT */
/*
 * Maps a function for execution: its own bytes, traps in the rest of its
 * section, and behind them the few functions that it may call.  Everything else
 * that it names lies in memory that cannot be touched, each name in a slot of its own.
 *
 * A page is never writable and executable at once, not even in turn, so that
 * systemd's MemoryDenyWriteExecute= does not forbid it.
 */
#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernelcode/kernelcode.h"

#define MAX_SECTION (16u << 20)
#define PAGE 65536UL /* the largest that a kernel has */
#define SLOT 64

#define MAX_PLACED 2

static struct traps {
	uint64_t begin;
	size_t count;
	char names[KERNELCODE_RELOCATIONS][64];
} placed[MAX_PLACED];
static size_t placed_count;

const char *kernelcode_trapped(uint64_t address)
{
	for (size_t i = 0; i < placed_count; i++)
		if ((address - placed[i].begin) / SLOT < placed[i].count)
			return placed[i].names[(address - placed[i].begin) / SLOT];
	return NULL;
}

#if defined(__x86_64__)

static const uint8_t stub_return[] = { 0xc3 };
static const uint8_t stub_jump[] = {
	0xff, 0x25, 0, 0, 0, 0
}; /* jmp *(%rip), the address follows */
#define STUB_JUMP_ADDRESS sizeof(stub_jump)
#define TRAP 0xcc

/* @place: where the four bytes will be; @is_trap: whether @target is */
static bool apply(const struct kernelcode_relocation *r, uint8_t *at, uint64_t place,
		  uint64_t target, bool is_trap)
{
	uint64_t value;
	int32_t field;

	switch (r->type) {
	case R_X86_64_NONE:
		return true;
	case R_X86_64_PC32:
	case R_X86_64_PLT32:
		/* Where in a section, is of no interest: all of it is a trap. */
		value = target + (uint64_t)(is_trap ? -4 : r->addend) - place;
		break;
	case R_X86_64_32:
	case R_X86_64_32S:
		value = 0;
		break;
	default:
		return false;
	}
	field = (int32_t)value;
	memcpy(at, &field, sizeof(field));
	return (uint64_t)(int64_t)field == value;
}

#elif defined(__aarch64__)

static const uint32_t stub_return[] = { 0xd65f03c0 };
static const uint32_t stub_jump[] = { 0x58000050, 0xd61f0200 }; /* ldr x16, #8; br x16 */
#define STUB_JUMP_ADDRESS sizeof(stub_jump)
#define TRAP 0 /* udf #0 */

static uint32_t bits(uint64_t value, unsigned int from, unsigned int count, unsigned int to)
{
	return (uint32_t)(value >> from & ((1U << count) - 1)) << to;
}

static bool apply(const struct kernelcode_relocation *r, uint8_t *at, uint64_t place,
		  uint64_t target, bool is_trap)
{
	uint64_t away = target + (uint64_t)(is_trap ? 0 : r->addend) - place;
	uint64_t pages = (target & ~0xfffUL) - (place & ~0xfffUL);
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	switch (r->type) {
	case R_AARCH64_NONE:
		return true;
	case R_AARCH64_CALL26:
	case R_AARCH64_JUMP26:
		word = (word & 0xfc000000) | bits(away, 2, 26, 0);
		break;
	case R_AARCH64_CONDBR19:
		word = (word & 0xff00001f) | bits(away, 2, 19, 5);
		break;
	case R_AARCH64_ADR_PREL_PG_HI21:
	case R_AARCH64_ADR_PREL_PG_HI21_NC:
		word = (word & 0x9f00001f) | bits(pages, 12, 2, 29) | bits(pages, 14, 19, 5);
		break;
	case R_AARCH64_ADD_ABS_LO12_NC:
	case R_AARCH64_LDST8_ABS_LO12_NC:
	case R_AARCH64_LDST16_ABS_LO12_NC:
	case R_AARCH64_LDST32_ABS_LO12_NC:
	case R_AARCH64_LDST64_ABS_LO12_NC:
		/* The page cannot be touched, wherever in it. */
		break;
	default:
		return false;
	}
	memcpy(at, &word, sizeof(word));
	return true;
}

#else

static const uint8_t stub_return[1], stub_jump[1];
#define STUB_JUMP_ADDRESS 1
#define TRAP 0

static bool apply(const struct kernelcode_relocation *r, uint8_t *at, uint64_t place,
		  uint64_t target, bool is_trap)
{
	(void)r, (void)at, (void)place, (void)target, (void)is_trap;
	return false;
}

#endif

static void make_stubs(uint8_t *stubs)
{
	const uint64_t address = (uintptr_t)kernelcode_sg_next;

	memcpy(stubs, stub_return, sizeof(stub_return));
	memcpy(stubs + SLOT, stub_jump, sizeof(stub_jump));
	memcpy(stubs + SLOT + STUB_JUMP_ADDRESS, &address, sizeof(address));
}

/* Calls that do nothing here: tracing's entry, and the return of retbleed's cure. */
static bool only_returns(const char *symbol)
{
	return !strcmp(symbol, "__fentry__") || !strcmp(symbol, "_mcount") ||
	       !strcmp(symbol, "__x86_return_thunk");
}

static uint64_t target_of(const struct kernelcode_relocation *r, uint64_t stubs, bool *is_trap)
{
	struct traps *traps = &placed[placed_count - 1];

	*is_trap = false;
	if (only_returns(r->symbol))
		return stubs;
	if (!strcmp(r->symbol, "sg_next"))
		return stubs + SLOT;
	*is_trap = true;
	memcpy(traps->names[traps->count], r->symbol, sizeof(r->symbol));
	return traps->begin + SLOT * traps->count++;
}

/* Function and stubs as they will lie at @base, in a file that is never mapped writable. */
static int write_code(const struct kernelcode_function *f, uint8_t *image, size_t size,
		      size_t stubs, uint64_t base, struct kernelcode_why *why)
{
	int fd;

	memset(image, TRAP, size);
	memcpy(image + f->before, f->bytes, f->size);
	make_stubs(image + stubs);
	for (size_t i = 0; i < f->count; i++) {
		const struct kernelcode_relocation *r = &f->relocations[i];
		size_t at = f->before + r->offset;
		bool is_trap;
		uint64_t target = target_of(r, base + stubs, &is_trap);

		if (r->offset + 4 > f->size || !apply(r, image + at, base + at, target, is_trap)) {
			kernelcode_fails(why, "%s has a relocation of type %u, which is not known.",
					 f->name, r->type);
			return -1;
		}
	}
	fd = memfd_create("kernelcode", MFD_CLOEXEC);
	for (size_t done = 0; fd >= 0 && done < size;) {
		ssize_t n = write(fd, image + done, size - done);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return fd;
}

const void *kernelcode_place(const struct kernelcode_function *f, struct kernelcode_why *why)
{
	size_t stubs = (f->before + f->size + f->after + SLOT - 1) / SLOT * SLOT;
	size_t size = (stubs + PAGE) / PAGE * PAGE + PAGE;
	uint8_t *base, *image;
	void *code = MAP_FAILED;
	int fd;

	if (stubs > MAX_SECTION || placed_count == MAX_PLACED) {
		kernelcode_fails(why, "The section of %s has more than %u MiB.", f->name,
				 MAX_SECTION >> 20);
		return NULL;
	}
	base = mmap(NULL, size + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	image = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED || image == MAP_FAILED) {
		kernelcode_fails(why, "There is no memory for the code.");
		return NULL;
	}
	placed[placed_count++].begin = (uintptr_t)base + size;
	fd = write_code(f, image, size, stubs, (uintptr_t)base, why);
	munmap(image, size);
	if (fd < 0)
		return NULL;
	code = mmap(base, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
	close(fd);
	if (code == MAP_FAILED) {
		kernelcode_fails(why, "This process may not execute code that it wrote.");
		return NULL;
	}
	return base + f->before;
}
