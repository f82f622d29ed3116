/* SPDX-License-Identifier: MIT */
/*
 * mrguard-kernelcode: takes two functions of the kernel's RDMA core out of a
 * module's file, runs them on made-up lists, and says what they do.
 *
 * The file is standard input, the kernel's BTF standard error (or nothing), and
 * the answer goes to standard output, a file or memfd that can be mapped: lines
 * of a word and a value, the last one "end".  walkfile/answer.c reads it.
 *
 * A file may be damaged or made by an enemy.  So it is read and run in a process
 * that has no other descriptors and that seccomp lets do nothing but compute.
 */
#ifndef KERNELCODE_H
#define KERNELCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One place in a function that names something outside of it. */
struct kernelcode_relocation {
	uint32_t offset; /* in the function */
	uint32_t type; /* of this machine's ELF */
	int64_t addend;
	char symbol[64];
};

#define KERNELCODE_RELOCATIONS 64
#define KERNELCODE_MAX_FUNCTION 4096

/**
 * struct kernelcode_function - a function as it lies in the file
 * @bytes, @size: its code
 * @before, @after: bytes of the section around it, into which a stray jump leads
 */
struct kernelcode_function {
	const char *name;
	const uint8_t *bytes;
	size_t size;
	size_t before;
	size_t after;
	struct kernelcode_relocation relocations[KERNELCODE_RELOCATIONS];
	size_t count;
};

/* Why something is not known: one sentence. */
struct kernelcode_why {
	char text[200];
};

__attribute__((format(printf, 2, 3))) bool kernelcode_fails(struct kernelcode_why *why,
							    const char *format, ...);

/* ---- confine.c ---- */

/* No core, no tracer, no descriptors but three, and time limits. */
bool kernelcode_confine(void);
/* Only what reading a file and mapping memory needs. */
bool kernelcode_confine_reading(void);
/* Only leaving: for while the kernel's code runs. */
bool kernelcode_confine_running(void);

/* ---- unpack.c ---- */

/* The whole of descriptor @fd, unpacked where it is .xz, .zst or .gz.  NULL: @why. */
uint8_t *kernelcode_read(int fd, size_t *size, struct kernelcode_why *why);

/* ---- take.c ---- */

struct kernelcode_file;
/* This program's, as in ELF; EM_NONE where it is not known. */
extern const uint32_t kernelcode_machine;

/* @data stays in use until the end.  NULL: @why. */
struct kernelcode_file *kernelcode_open(uint8_t *data, size_t size, struct kernelcode_why *why);
/* The build id in hexadecimal, and .modinfo's srcversion; "" where there is none. */
void kernelcode_identity(struct kernelcode_file *file, char build_id[80], char srcversion[40]);
/* false: @why, which is empty where the file has no such function. */
bool kernelcode_take(struct kernelcode_file *file, const char *name,
		     struct kernelcode_function *function, struct kernelcode_why *why);
/* A section's bytes; NULL where there is none. */
const void *kernelcode_section(struct kernelcode_file *file, const char *name, size_t *size);

/* ---- recorded.c ---- */

/* Whether a file is not a module's but an answer of this program. */
bool kernelcode_is_recorded(const uint8_t *data, size_t size);
/* As kernelcode_take(), out of an answer that ends with a NUL. */
bool kernelcode_take_recorded(const char *text, const char *name,
			      struct kernelcode_function *function, struct kernelcode_why *why);

/* ---- sg.c ---- */

#define KERNELCODE_SG_LAST 2 /* in page_link: the list ends here */
extern uint32_t kernelcode_sg_size; /* of one entry */
/* The one function of the kernel's that may be called; the rest is a trap. */
void *kernelcode_sg_next(void *sg);

/* ---- place.c and call.c ---- */

/* Maps the function, to be executed and not to be written.  NULL: @why. */
const void *kernelcode_place(const struct kernelcode_function *function,
			     struct kernelcode_why *why);
/* The symbol that an address among the traps stands for; NULL: it is not there. */
const char *kernelcode_trapped(uint64_t address);

bool kernelcode_call_prepare(void);
/* Calls @code(a, b, c).  false: it did not come back, or not as a function
 * does; @why. */
bool kernelcode_call(const void *code, uint64_t a, uint64_t b, uint64_t c, uint64_t *result,
		     struct kernelcode_why *why);

/* ---- layout.c ---- */

#define KERNELCODE_NONE UINT32_MAX

/* Offsets of fields in bytes; KERNELCODE_NONE where a structure lacks one. */
struct kernelcode_layout {
	bool from_btf;
	/* struct scatterlist */
	uint32_t sg_size, sg_offset, sg_length, sg_address, sg_dma_length;
	/* struct ib_block_iter */
	uint32_t iter_sg, iter_address, iter_numblocks, iter_nents, iter_advance, iter_bit;
	/* struct ib_umem; its list's length follows @umem_list after a pointer */
	uint32_t umem_iova, umem_length, umem_address, umem_list, umem_nmap;
};

/* Layouts to try, the likeliest first: those of BTF, then those that kernels had. */
size_t kernelcode_layouts(const void *btf, size_t btf_size, const void *base, size_t base_size,
			  struct kernelcode_layout *layouts, size_t room);

/* ---- ask.c ---- */

/* Room for the lists, allocated before allocation is forbidden. */
bool kernelcode_ask_prepare(void);
/* Both find out which layout fits, and leave it in @layout.  false: @why.
 * @bits: MRG_WALK_INFO_* */
bool kernelcode_ask_walk(const void *code, const struct kernelcode_layout *layouts, size_t count,
			 struct kernelcode_layout *layout, uint32_t *bits,
			 struct kernelcode_why *why);
/* log2 of the page that it picks for 8 GiB without a break, at an iova like the address */
bool kernelcode_ask_pick(const void *code, const struct kernelcode_layout *layouts, size_t count,
			 struct kernelcode_layout *layout, uint32_t *shift,
			 struct kernelcode_why *why);

#endif
