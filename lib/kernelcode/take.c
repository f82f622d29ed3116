/* SPDX-License-Identifier: MIT */
/* A function out of a module's file, with what it names outside of itself. */
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernelcode/kernelcode.h"

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_NONE
#endif

const uint32_t kernelcode_machine = MACHINE;

struct kernelcode_file {
	Elf *elf;
	size_t names; /* of sections */
	Elf_Data *symbols;
	size_t symbol_count;
	size_t strings; /* of symbols */
};

static const char *name_of(const struct kernelcode_file *file, const GElf_Shdr *header)
{
	const char *name = elf_strptr(file->elf, file->names, header->sh_name);

	return name ? name : "";
}

/* The next section of a type after @section; NULL at the end. */
static Elf_Scn *next_of(const struct kernelcode_file *file, Elf_Scn *section, GElf_Word type,
			GElf_Shdr *header)
{
	while ((section = elf_nextscn(file->elf, section)))
		if (gelf_getshdr(section, header) && header->sh_type == type)
			break;
	return section;
}

static bool find_symbols(struct kernelcode_file *file)
{
	GElf_Shdr header;
	Elf_Scn *section = next_of(file, NULL, SHT_SYMTAB, &header);

	if (!section || header.sh_entsize != sizeof(Elf64_Sym))
		return false;
	file->symbols = elf_getdata(section, NULL);
	file->symbol_count = file->symbols ? file->symbols->d_size / sizeof(Elf64_Sym) : 0;
	file->strings = header.sh_link;
	return file->symbol_count;
}

struct kernelcode_file *kernelcode_open(uint8_t *data, size_t size, struct kernelcode_why *why)
{
	static struct kernelcode_file file;
	GElf_Ehdr header;

	elf_version(EV_CURRENT);
	file.elf = elf_memory((char *)data, size);
	if (!file.elf || !gelf_getehdr(file.elf, &header) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    header.e_type != ET_REL)
		kernelcode_fails(why, "The file is no kernel module.");
	else if (header.e_machine != MACHINE)
		kernelcode_fails(why, "The file is for another architecture than this program.");
	else if (elf_getshdrstrndx(file.elf, &file.names) || !find_symbols(&file))
		kernelcode_fails(why, "The file has no symbols.");
	else
		return &file;
	return NULL;
}

const void *kernelcode_section(struct kernelcode_file *file, const char *name, size_t *size)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	Elf_Data *data;

	while ((section = elf_nextscn(file->elf, section))) {
		if (!gelf_getshdr(section, &header) || strcmp(name_of(file, &header), name))
			continue;
		data = elf_rawdata(section, NULL);
		*size = data ? data->d_size : 0;
		return data ? data->d_buf : NULL;
	}
	return NULL;
}

#define NOTE_HEAD 16 /* three lengths and "GNU" */

void kernelcode_identity(struct kernelcode_file *file, char build_id[80], char srcversion[40])
{
	static const char key[] = "srcversion=";
	size_t size, at = 0, length;
	const uint8_t *note = kernelcode_section(file, ".note.gnu.build-id", &size);
	const char *info;

	build_id[0] = srcversion[0] = 0;
	for (size_t i = NOTE_HEAD; note && i < size && i < NOTE_HEAD + 39; i++)
		snprintf(build_id + 2 * (i - NOTE_HEAD), 3, "%02x", note[i]);
	info = kernelcode_section(file, ".modinfo", &size);
	for (; info && at < size; at += length + 1) {
		length = strnlen(info + at, size - at);
		if (length > sizeof(key) - 1 && !strncmp(info + at, key, sizeof(key) - 1))
			snprintf(srcversion, 40, "%.*s", (int)(length - (sizeof(key) - 1)),
				 info + at + sizeof(key) - 1);
	}
	for (char *c = srcversion; *c; c++)
		if (*c < '!' || *c > '~')
			*c = '?';
}

static bool find_function(struct kernelcode_file *file, const char *name, GElf_Sym *symbol)
{
	for (size_t i = 0; i < file->symbol_count; i++) {
		const char *at;

		if (!gelf_getsym(file->symbols, (int)i, symbol) ||
		    GELF_ST_TYPE(symbol->st_info) != STT_FUNC)
			continue;
		at = elf_strptr(file->elf, file->strings, symbol->st_name);
		if (at && !strcmp(at, name))
			return true;
	}
	return false;
}

/* The section's own name where the symbol stands for one; never NULL. */
static const char *symbol_name(struct kernelcode_file *file, const GElf_Sym *symbol)
{
	const char *name = elf_strptr(file->elf, file->strings, symbol->st_name);
	GElf_Shdr header;

	if (GELF_ST_TYPE(symbol->st_info) == STT_SECTION &&
	    gelf_getshdr(elf_getscn(file->elf, symbol->st_shndx), &header))
		name = name_of(file, &header);
	return name ? name : "";
}

/* What in a function needs the kernel that it was made for, by a symbol's name. */
static const char *needs_kernel(const char *symbol)
{
	static const struct {
		const char *begin, *what;
	} table[] = {
		{ "__stack_chk_", "reads a stack canary" },
		{ "__ref_stack_chk_guard", "reads a stack canary" },
		{ "__SCT__", "makes a static call" },
		{ "__asan_", "was built for KASAN" },
		{ "__hwasan_", "was built for KASAN" },
		{ "__msan_", "was built for KMSAN" },
		{ "__tsan_", "was built for KCSAN" },
		{ "__sanitizer_cov_", "was built for KCOV" },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (!strncmp(symbol, table[i].begin, strlen(table[i].begin)))
			return table[i].what;
	return NULL;
}

static bool add_relocation(struct kernelcode_file *file, const GElf_Rela *rela, uint64_t start,
			   struct kernelcode_function *f, struct kernelcode_why *why)
{
	struct kernelcode_relocation *r;
	const char *needs;
	GElf_Sym symbol;

	if (f->count == KERNELCODE_RELOCATIONS)
		return kernelcode_fails(why, "%s names more than %d places outside of itself.",
					f->name, KERNELCODE_RELOCATIONS);
	if (!gelf_getsym(file->symbols, (int)GELF_R_SYM(rela->r_info), &symbol))
		return kernelcode_fails(why, "The file's relocations are damaged.");
	r = &f->relocations[f->count++];
	r->offset = (uint32_t)(rela->r_offset - start);
	r->type = (uint32_t)GELF_R_TYPE(rela->r_info);
	r->addend = rela->r_addend;
	snprintf(r->symbol, sizeof(r->symbol), "%s", symbol_name(file, &symbol));
	needs = needs_kernel(r->symbol);
	return !needs || kernelcode_fails(why, "%s %s.", f->name, needs);
}

/* Sections that say which code the running kernel rewrites. */
static const char *rewritten_by(const char *section)
{
	static const struct {
		const char *section, *what;
	} table[] = {
		{ ".rela.altinstructions", "alternatives" },
		{ ".rela.parainstructions", "paravirtual calls" },
		{ ".rela__jump_table", "static keys" },
		{ ".rela.static_call_sites", "static calls" },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (!strcmp(section, table[i].section))
			return table[i].what;
	return NULL;
}

static bool in(uint64_t at, const GElf_Sym *function)
{
	return at - function->st_value < function->st_size;
}

static bool points_into(struct kernelcode_file *file, const GElf_Rela *rela,
			const GElf_Sym *function)
{
	GElf_Sym symbol;

	return gelf_getsym(file->symbols, (int)GELF_R_SYM(rela->r_info), &symbol) &&
	       symbol.st_shndx == function->st_shndx &&
	       in(symbol.st_value + (uint64_t)rela->r_addend, function);
}

static bool look_at(struct kernelcode_file *file, Elf_Scn *section, const GElf_Shdr *header,
		    const GElf_Sym *symbol, struct kernelcode_function *f,
		    struct kernelcode_why *why)
{
	const char *rewritten = rewritten_by(name_of(file, header));
	bool own = header->sh_info == symbol->st_shndx;
	Elf_Data *data = own || rewritten ? elf_getdata(section, NULL) : NULL;
	GElf_Rela rela;

	if (own && !data)
		return kernelcode_fails(why, "The file's relocations are damaged.");
	for (int i = 0; data && gelf_getrela(data, i, &rela); i++) {
		if (rewritten && points_into(file, &rela, symbol))
			return kernelcode_fails(why,
						"%s has %s, which the running kernel rewrites.",
						f->name, rewritten);
		if (own && in(rela.r_offset, symbol) &&
		    !add_relocation(file, &rela, symbol->st_value, f, why))
			return false;
	}
	return true;
}

/* str x30, [x18], #8 */
#define SHADOW_PUSH 0xf800865eU

static bool uses_shadow_stack(const struct kernelcode_function *f)
{
	uint32_t word;

	for (size_t i = 0; MACHINE == EM_AARCH64 && i + 4 <= f->size; i += 4) {
		memcpy(&word, f->bytes + i, sizeof(word));
		if (word == SHADOW_PUSH)
			return true;
	}
	return false;
}

bool kernelcode_take(struct kernelcode_file *file, const char *name, struct kernelcode_function *f,
		     struct kernelcode_why *why)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	GElf_Sym symbol;
	Elf_Data *data;

	*f = (struct kernelcode_function){ .name = name };
	why->text[0] = 0;
	if (!find_function(file, name, &symbol))
		return false;
	section = elf_getscn(file->elf, symbol.st_shndx);
	data = section ? elf_rawdata(section, NULL) : NULL;
	if (!data || !data->d_buf || !symbol.st_size || symbol.st_size > KERNELCODE_MAX_FUNCTION ||
	    symbol.st_value > data->d_size || symbol.st_size > data->d_size - symbol.st_value)
		return kernelcode_fails(why, "%s does not lie in the file.", name);
	f->bytes = (const uint8_t *)data->d_buf + symbol.st_value;
	f->size = symbol.st_size;
	f->before = symbol.st_value;
	f->after = data->d_size - symbol.st_value - symbol.st_size;
	if (uses_shadow_stack(f))
		return kernelcode_fails(why, "%s uses a shadow call stack.", name);
	section = NULL;
	while ((section = next_of(file, section, SHT_RELA, &header)))
		if (!look_at(file, section, &header, &symbol, f, why))
			return false;
	return true;
}
