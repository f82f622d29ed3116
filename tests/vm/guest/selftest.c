/* SPDX-License-Identifier: MIT */
/*
 * `mrguard selftest' finds the fault where it is, names it by its distance, and
 * finds none where there is none; `mrguard demo' ends well.
 */
#include <jansson.h>
#include <sys/wait.h>

#include "ground.h"

static const char wrapping[] = "--buffer simgpu:12G,seg=2G --iova 0x700000000000 --blocks 48";

/* Runs the command, and reads its one JSON object. */
__attribute__((format(printf, 2, 3))) static json_t *selftest(int *status, const char *format, ...)
{
	char options[256], command[512];
	json_t *root;
	va_list args;
	FILE *out;

	va_start(args, format);
	vsnprintf(options, sizeof(options), format, args);
	va_end(args);
	snprintf(command, sizeof(command), "mrguard selftest --json --device simnic0 %s", options);
	fprintf(stderr, "%s\n", command);
	out = popen(command, "r");
	root = json_loadf(out, JSON_DISABLE_EOF_CHECK, NULL);
	if (root)
		json_dumpf(root, stderr, JSON_INDENT(1));
	*status = WEXITSTATUS(pclose(out));
	return root;
}

static const char *text(json_t *root, const char *key)
{
	const char *value = json_string_value(json_object_get(root, key));

	return value ? value : "";
}

static uint64_t number(json_t *root, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(root, key));
}

/* Fault groups of a kind and distance, on any side. */
static size_t groups(json_t *root, const char *kind, const char *distance)
{
	json_t *faults = json_object_get(root, "faults"), *g;
	size_t i, n = 0;

	json_array_foreach(faults, i, g)
		n += !strcmp(text(g, "kind"), kind) && !strcmp(text(g, "distance"), distance);
	return n;
}

static void is_clean(const char *what, size_t mrs, const char *options)
{
	int status;
	json_t *root = selftest(&status, "%s", options);

	ok(!status && !strcmp(text(root, "verdict"), "clean") && !number(root, "wrong"),
	   "%s: clean", what);
	ok(number(root, "mrs") == mrs, "%s: %zu MRs", what, mrs);
	ok(number(root, "compared") > 0 && number(root, "places") > 0, "%s: bytes were compared",
	   what);
	json_decref(root);
}

static void raw_shows_the_fault(const char *what, const char *options)
{
	bool wraps = walk_is_truncating();
	int status;
	json_t *root = selftest(&status, "--raw %s", options);

	ok(status == wraps, "%s, plain verbs: exit status is %d", what, wraps);
	ok(!strcmp(text(root, "verdict"), wraps ? "wrong" : "clean"),
	   "%s, plain verbs: the verdict is %s", what, wraps ? "wrong" : "clean");
	if (wraps) {
		ok(groups(root, "moved", "-0x100000000") >= 4,
		   "%s, plain verbs: each transfer is found moved by 2^32", what);
		ok(strstr(text(root, "hint"), "not safe on this kernel") != NULL,
		   "%s, plain verbs: the hint says that one MR is not safe", what);
	}
	json_decref(root);
}

/* A DMA-BUF that the command inherits: it is not to map it. */
static void handed_in_fd(void)
{
	const struct mrg_sg sg = { 4 * GIB, 12 * GIB };
	int fd = make_dmabuf(&sg, 1, 2 * GIB);
	bool wraps = walk_is_truncating();
	int status;
	json_t *root;

	fcntl(fd, F_SETFD, 0);
	root = selftest(&status, "--raw --buffer fd:%d --blocks 12", fd);
	ok(status == wraps && !strcmp(text(root, "truth"), "small MRs"),
	   "an inherited DMA-BUF is looked at through MRs of its own");
	ok(!wraps || groups(root, "moved", "-0x100000000") >= 4, "the fault is named there too");
	json_decref(root);
	close(fd);
}

static void what_cannot_run_says_so(void)
{
	ok(WEXITSTATUS(run_command("mrguard selftest --device simnic0 --buffer simgpu:1Q >&2")) ==
		   3,
	   "a buffer that cannot be made: exit status 3");
	simnic_set("simnic0", "fail_reg_errno", EIO);
	simnic_set("simnic0", "fail_reg_nth", 2);
	ok(WEXITSTATUS(run_command("mrguard selftest --device simnic0 --buffer host:1M >&2")) == 3,
	   "a registration that fails: exit status 3");
	simnic_set("simnic0", "fail_wr_nth", 5);
	ok(WEXITSTATUS(run_command("mrguard selftest --device simnic0 --buffer host:1M >&2")) == 1,
	   "a transfer that fails: exit status 1");
}

int main(int argc, char **argv)
{
	bool wraps = walk_is_truncating();

	(void)argc;
	preload_shim(argv);
	ground_up();
	is_clean("a buffer that would wrap", 1, wrapping);
	is_clean("the same, split", wraps ? 6 : 1,
		 "--strategy split --buffer simgpu:12G,seg=2G --iova 0x700000000000 --blocks 48");
	is_clean("the same, without the module", 6,
		 "--no-module --buffer simgpu:12G,seg=2G --iova 0x700000000000 --blocks 48");
	is_clean("ordinary memory", 1, "--buffer host:64M");
	is_clean("a few bytes", 1, "--buffer host:100");
	raw_shows_the_fault("a buffer that would wrap", wrapping);
	handed_in_fd();
	what_cannot_run_says_so();
	ok(!run_command(
		   "mrguard demo >$MRG_OUT/demo.txt; s=$?; sed 's/^/# /' $MRG_OUT/demo.txt; exit $s"),
	   "the demo ends well");
	ground_down();
	tap_end();
	return 0;
}
