/* SPDX-License-Identifier: MIT */
/* mrguard vma and mrguard explain, asked about this process with the module. */
#include <jansson.h>

#include "vma_kit.h"

#define PIECE (9 * KIT_PAGE) /* 36,864 of the field report, in pages of 4 KiB */
#define PIECES 200

static json_t *ask(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int last_status;

static FILE *run_command(const char *format, va_list args)
{
	char command[512];

	vsnprintf(command, sizeof(command), format, args);
	return popen(command, "r");
}

/* Runs a command that prints one JSON object. */
static json_t *ask(const char *format, ...)
{
	json_t *out;
	FILE *pipe;
	va_list args;

	va_start(args, format);
	pipe = run_command(format, args);
	va_end(args);
	if (!pipe)
		return NULL;
	out = json_loadf(pipe, JSON_DISABLE_EOF_CHECK, NULL);
	last_status = WEXITSTATUS(pclose(pipe));
	return out;
}

static json_int_t number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : "";
}

/* Every second piece marked.  The first is written before, if asked for. */
static char *pieces(bool written)
{
	char *area = kit_map(2 * PIECES * PIECE / KIT_PAGE);

	if (!area)
		return NULL;
	if (written)
		area[0] = 1;
	for (size_t i = 0; i < PIECES; i++)
		madvise(area + 2 * i * PIECE, PIECE, MADV_DONTFORK);
	for (size_t i = 0; i < 2 * PIECES; i++)
		area[i * PIECE] = 1;
	return area;
}

static int marked(const void *arg)
{
	json_t *report, *figures, *family;
	json_int_t before;

	(void)arg;
	report = ask("mrguard vma %d --json", getpid());
	CHECK(report && last_status == 0);
	before = number(json_object_get(report, "pieces"), "joinable");
	json_decref(report);
	CHECK(pieces(true));
	report = ask("mrguard vma %d --json", getpid());
	CHECK(report && last_status == 0);
	figures = json_object_get(report, "pieces");
	CHECK(json_is_true(json_object_get(figures, "exact")));
	CHECK(number(figures, "dontcopy") == PIECES);
	CHECK(number(figures, "joinable") - before == 2 * PIECES - 1);
	family = json_array_get(json_object_get(report, "families"), 0);
	CHECK(number(family, "bytes") == (json_int_t)PIECE);
	CHECK(number(family, "dontcopy") == PIECES);
	CHECK(number(report, "count") > 2 * PIECES);
	CHECK(!strcmp(text(report, "comm"), "vma_command"));
	return 0;
}

/* The module tells these from those that merge; smaps cannot. */
static int never_written_before(const void *arg)
{
	json_t *report, *figures;
	char *area;

	(void)arg;
	area = pieces(false);
	CHECK(area);
	report = ask("mrguard vma %d --json", getpid());
	figures = json_object_get(report, "pieces");
	CHECK(json_is_true(json_object_get(figures, "exact")));
	CHECK(number(figures, "dontcopy") == PIECES);
	CHECK(number(figures, "joinable") < PIECES);
	for (size_t i = 0; i < PIECES; i++)
		madvise(area + 2 * i * PIECE, PIECE, MADV_DOFORK);
	json_decref(report);
	report = ask("mrguard vma %d --json", getpid());
	figures = json_object_get(report, "pieces");
	CHECK(number(figures, "dontcopy") == 0);
	CHECK(number(figures, "stuck_anon") >= 2 * PIECES - 1);
	return 0;
}

static int near_the_limit(const void *arg)
{
	char command[96];
	json_int_t count;
	json_t *report;

	(void)arg;
	CHECK(pieces(true));
	count = number(ask("mrguard vma %d --json", getpid()), "count");
	CHECK(count > 2 * PIECES);
	snprintf(command, sizeof(command), "echo %d > /proc/sys/vm/max_map_count",
		 (int)(count + count / 25));
	CHECK(!system(command));
	report = ask("mrguard vma %d --json", getpid());
	CHECK(!system("echo 65530 > /proc/sys/vm/max_map_count"));
	CHECK(report && last_status == 1);
	CHECK(!strcmp(text(report, "state"), "near"));
	CHECK(strstr(text(report, "verdict"), "fork protection is the cause"));
	CHECK(strstr(text(report, "remedy"), "ibv_fork_init"));
	return 0;
}

static bool prints(const char *command, const char *wanted)
{
	char line[512];
	FILE *pipe = popen(command, "r");
	bool found = false;

	while (pipe && fgets(line, sizeof(line), pipe))
		found |= strstr(line, wanted) != NULL;
	last_status = pipe ? WEXITSTATUS(pclose(pipe)) : -1;
	return found;
}

static int gauges_and_samples(const void *arg)
{
	char command[128], wanted[128];

	(void)arg;
	CHECK(pieces(true));
	snprintf(command, sizeof(command), "mrguard vma %d --prometheus", getpid());
	snprintf(wanted, sizeof(wanted),
		 "mrguard_vma_dontcopy{pid=\"%d\",comm=\"vma_command\"} %d\n", getpid(), PIECES);
	CHECK(prints(command, wanted) && last_status == 0);
	snprintf(command, sizeof(command), "mrguard vma %d --watch=0.1 --samples 4", getpid());
	CHECK(prints(command, "of 65530, +0.0 a minute") && last_status == 0);
	return 0;
}

/* Not the caller's to look at, and not there. */
static int refused(const void *arg)
{
	char command[192];

	(void)arg;
	/* The build folder may be in a home that others cannot enter. */
	CHECK(!system("mkdir -p /tmp/others && cp \"$MRG_BUILD\"/mrguard "
		      "\"$MRG_BUILD\"/libmrguard*.so.? /tmp/others"));
	snprintf(command, sizeof(command),
		 "LD_LIBRARY_PATH=/tmp/others setpriv --reuid 65534 --regid 65534 "
		 "--clear-groups /tmp/others/mrguard vma %d 2>&1",
		 getpid());
	CHECK(prints(command, "CAP_SYS_PTRACE") && last_status == 3);
	CHECK(prints("mrguard vma 4194303 2>&1", "still runs") && last_status == 3);
	return 0;
}

static const json_t *cause(const json_t *report, const char *name)
{
	const json_t *causes = json_object_get(report, "causes");

	for (size_t i = 0; i < json_array_size(causes); i++)
		if (!strcmp(text(json_array_get(causes, i), "cause"), name))
			return json_array_get(causes, i);
	return NULL;
}

/* The device is asked for its limits, and counts its MRs. */
static int explained(const void *arg)
{
	char *area = kit_map(16);
	struct ibv_pd *pd = ibv_alloc_pd(kit_open_device());
	json_t *report;

	(void)arg;
	CHECK(pd && area);
	for (int i = 0; i < 3; i++)
		CHECK(ibv_reg_mr(pd, area, 4 * KIT_PAGE, KIT_ACCESS));
	report = ask("mrguard explain %d --error ENOMEM --length 4096 --device rxe_simnic0 --json",
		     getpid());
	CHECK(report && last_status == 3);
	CHECK(strstr(text(cause(report, "device keys"), "text"), "The device has 3 of "));
	CHECK(!strcmp(text(cause(report, "device keys"), "likelihood"), "not this"));
	CHECK(!strcmp(text(cause(report, "MR size"), "likelihood"), "not this"));
	CHECK(!strcmp(text(cause(report, "VMA limit"), "likelihood"), "not this"));
	json_decref(report);

	CHECK(!munmap(area + 8 * KIT_PAGE, KIT_PAGE));
	report = ask("mrguard explain %d --error EFAULT --address %p --length %lu --json", getpid(),
		     (void *)area, 16 * KIT_PAGE);
	CHECK(report && last_status == 0);
	CHECK(!strcmp(text(cause(report, "hole"), "likelihood"), "this"));
	return 0;
}

static const struct {
	const char *name;
	int (*run)(const void *arg);
} scenarios[] = {
	{ "marked pieces are counted exactly, by their exact size", marked },
	{ "cuts of memory never written before are distinguished from those that heal",
	  never_written_before },
	{ "near the limit the exit status is 1 and fork protection is blamed", near_the_limit },
	{ "gauges and samples carry the figures", gauges_and_samples },
	{ "a process of another's, or none, is refused with a remedy", refused },
	{ "a device's limits and MRs are asked for, a hole is found", explained },
};
#define SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

int main(void)
{
	kit_start(SCENARIOS);
	for (size_t i = 0; i < SCENARIOS; i++)
		kit_run(scenarios[i].name, scenarios[i].run, NULL);
	return kit_end();
}
