/* SPDX-License-Identifier: MIT */
/* See kernelcode.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernelcode/kernelcode.h"

#define ANSWER_SIZE 65536
#define MAX_LAYOUTS 16

static char *answer;
static size_t used;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(answer + used, ANSWER_SIZE - used, format, args);
	va_end(args);
	if (n > 0 && (size_t)n < ANSWER_SIZE - used)
		used += (size_t)n;
}

/* Plain memory from here on: while the kernel's code runs, nothing can be written out. */
static bool map_answer(void)
{
	if (ftruncate(STDOUT_FILENO, ANSWER_SIZE))
		return false;
	answer = mmap(NULL, ANSWER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, STDOUT_FILENO, 0);
	return answer != MAP_FAILED;
}

static void say_function(const struct kernelcode_function *f)
{
	say("function %s ", f->name);
	for (size_t i = 0; i < f->size; i++)
		say("%02x", f->bytes[i]);
	say("\n");
	for (size_t i = 0; i < f->count; i++)
		say("relocation %s %u %u %lld %s\n", f->name, f->relocations[i].offset,
		    f->relocations[i].type, (long long)f->relocations[i].addend,
		    f->relocations[i].symbol[0] ? f->relocations[i].symbol : "-");
}

enum { WALK, PICK, FUNCTIONS };

static const struct {
	const char *word;
	const char *name;
} functions[] = {
	[WALK] = { "walk", "__rdma_block_iter_next" },
	[PICK] = { "pick", "ib_umem_find_best_pgsz" },
};

struct taken {
	struct kernelcode_function function;
	const void *code;
	struct kernelcode_why why; /* where there is no code */
};

/* Out of @file, or where that is NULL, out of the text of a record. */
static void take(struct kernelcode_file *file, const char *text, int which, struct taken *taken)
{
	const char *name = functions[which].name;

	if (file ? !kernelcode_take(file, name, &taken->function, &taken->why) :
		   !kernelcode_take_recorded(text, name, &taken->function, &taken->why))
		return;
	say_function(&taken->function);
	taken->code = kernelcode_place(&taken->function, &taken->why);
}

static void run(struct taken *taken, const struct kernelcode_layout *layouts, size_t count)
{
	struct kernelcode_layout chosen;
	uint32_t bits, shift;

	if (taken[WALK].code && kernelcode_ask_walk(taken[WALK].code, layouts, count, &chosen,
						    &bits, &taken[WALK].why)) {
		say("walk %#x\nwalk-layout %s\n", bits, chosen.from_btf ? "btf" : "tried");
		taken[WALK].why.text[0] = 0;
	}
	if (taken[PICK].code && kernelcode_ask_pick(taken[PICK].code, layouts, count, &chosen,
						    &shift, &taken[PICK].why)) {
		say("pick %u\npick-layout %s\n", shift, chosen.from_btf ? "btf" : "tried");
		taken[PICK].why.text[0] = 0;
	}
	for (int i = 0; i < FUNCTIONS; i++)
		if (taken[i].why.text[0])
			say("%s-unknown %s\n", functions[i].word, taken[i].why.text);
}

static void answer_for(uint8_t *data, size_t size, bool confined)
{
	static struct kernelcode_layout layouts[MAX_LAYOUTS];
	static struct taken taken[FUNCTIONS];
	bool recorded = kernelcode_is_recorded(data, size);
	struct kernelcode_why why = { "" };
	struct kernelcode_file *file = recorded ? NULL : kernelcode_open(data, size, &why);
	size_t count, btf_size = 0, base_size = 0;
	char build_id[80] = "", srcversion[40] = "";
	const void *btf = NULL;
	uint8_t *base = NULL;

	if (!file && !recorded) {
		say("unknown %s\n", why.text);
		return;
	}
	if (file) {
		kernelcode_identity(file, build_id, srcversion);
		btf = kernelcode_section(file, ".BTF", &btf_size);
	}
	say("build-id %s\nsrcversion %s\nmachine %u\nrecorded %d\n", build_id, srcversion,
	    kernelcode_machine, recorded);
	for (int i = 0; i < FUNCTIONS; i++)
		take(file, (const char *)data, i, &taken[i]);
	if (btf)
		base = kernelcode_read(STDERR_FILENO, &base_size, &why);
	count = kernelcode_layouts(btf, btf_size, base, base_size, layouts, MAX_LAYOUTS);
	if (!kernelcode_call_prepare() || !kernelcode_ask_prepare() ||
	    (confined && !kernelcode_confine_running())) {
		say("unknown There is no way to confine the kernel's code.\n");
		return;
	}
	run(taken, layouts, count);
}

/* --unconfined is for emulators, which have no seccomp. */
int main(int argc, char **argv)
{
	bool confined = argc < 2 || strcmp(argv[1], "--unconfined");
	struct kernelcode_why why = { "" };
	uint8_t *data;
	size_t size;

	if (!map_answer() || !kernelcode_confine() || (confined && !kernelcode_confine_reading()))
		return EXIT_FAILURE;
	say("mrguard-kernelcode " MRG_VERSION_STRING "\n");
	data = kernelcode_read(STDIN_FILENO, &size, &why);
	if (data)
		answer_for(data, size, confined);
	else
		say("unknown %s\n", why.text);
	say("end\n");
	_exit(EXIT_SUCCESS);
}
