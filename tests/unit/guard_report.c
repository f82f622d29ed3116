/* SPDX-License-Identifier: MIT */
/* The guard's report and policy: JSON that parses, words that are there. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

#include "guard/mr_table.c"
#include "guard/names.c"
#include "guard/policy.c"
#include "guard/report.c"
#include "guard/sigsafe.c"

static struct guard_state *state;

static int set_up(void **arg)
{
	static const char *const names[] = { GUARD_ENV, GUARD_ENV_UNKNOWN, GUARD_ENV_REPORT,
					     GUARD_ENV_FORMAT };

	(void)arg;
	for (size_t i = 0; i < 4; i++)
		unsetenv(names[i]);
	state = calloc(1, sizeof(*state));
	state->pid = 4711;
	strcpy(state->program, "a \"b\\c\x01\xff");
	return 0;
}

static int tear_down(void **arg)
{
	(void)arg;
	free(state);
	return 0;
}

/* What a report writes; to be freed. */
static char *written(bool json)
{
	static struct guard_sigsafe text;
	FILE *file = tmpfile();
	char *content;
	long size;

	guard_sigsafe_begin(&text, fileno(file));
	guard_report(&text, state, GUARD_AT_END, json);
	assert_int_equal(guard_sigsafe_end(&text), 0);
	size = lseek(fileno(file), 0, SEEK_END);
	content = calloc(1, (size_t)size + 1);
	assert_int_equal(pread(fileno(file), content, (size_t)size, 0), size);
	fclose(file);
	return content;
}

static void list(size_t count)
{
	for (size_t i = 1; i <= count; i++) {
		struct guard_record record = {
			.length = 4096, .number = (uint32_t)i, .path = GUARD_DMABUF, .iova = i << 12
		};

		guard_count(&state->made[GUARD_DMABUF][MRG_SAFE], 4096);
		assert_true(guard_mr_add(state, (void *)(uintptr_t)(0x1000 + i * 96), &record));
	}
}

static struct guard_event *event(const char *cause)
{
	struct guard_event *e = &state->event[state->events++];

	e->kind = GUARD_EVENT_FAILED;
	e->ready = 1;
	e->times = 2;
	e->error = 12;
	e->fd = -1;
	e->length = 3 << 20;
	strcpy(e->cause, cause);
	return e;
}

static json_int_t number(const json_t *root, const char *key)
{
	const json_t *value = json_object_get(root, key);

	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

static void json_parses_whatever_is_in_it(void **arg)
{
	char *content;
	json_error_t error;
	json_t *root;

	(void)arg;
	list(200);
	event("a \"quoted\" cause,\nwith a line \t and \x80");
	content = written(true);
	root = json_loads(content, 0, &error);
	if (!root)
		fail_msg("%s: %s", error.text, content);
	assert_int_equal(number(root, "registered"), 200);
	assert_int_equal(number(root, "live"), 200);
	assert_int_equal(json_array_size(json_object_get(root, "mrs")), 200);
	assert_int_equal(json_array_size(json_object_get(root, "events")), 1);
	assert_string_equal(json_string_value(json_object_get(root, "schema")), "mrguard.run/2");
	json_decref(root);
	free(content);
}

static void assert_sentence(const char *text)
{
	assert_non_null(text);
	assert_in_range(text[0], 'A', 'Z');
	assert_int_equal(text[strlen(text) - 1], '.');
}

static void every_number_of_an_enum_has_words(void **arg)
{
	(void)arg;
	for (uint32_t i = 0; i < GUARD_REGISTRATIONS; i++)
		assert_non_null(guard_call_name(i));
	for (uint32_t i = 0; i < GUARD_PATHS; i++)
		assert_non_null(guard_path_name(i));
	for (uint32_t i = 0; i < GUARD_GROUNDS; i++)
		assert_sentence(guard_grounds_sentence(i));
	assert_string_equal(guard_grounds_sentence(GUARD_GROUNDS), "?");
	for (state->fork = 0; state->fork <= GUARD_FORK_PASSED_ON; state->fork++)
		for (state->kernel_copies = 0; state->kernel_copies <= MRG_KERNEL_COPIES;
		     state->kernel_copies++)
			assert_sentence(fork_sentence(state));
}

static void text_names_what_is_left_and_is_short(void **arg)
{
	char *content;

	(void)arg;
	list(100);
	guard_count(&state->deregistered, 0);
	event("The locked-memory limit is reached.");
	content = written(false);
	assert_non_null(strstr(content, "100 registered (400 KiB), 1 deregistered"));
	assert_non_null(strstr(content, "99 never deregistered"));
	assert_non_null(strstr(content, "83 more are not shown."));
	assert_non_null(strstr(content, "errno 12, 2 times. The locked-memory limit is reached."));
	free(content);
}

static void an_event_that_is_half_written_is_not_shown(void **arg)
{
	char *content;

	(void)arg;
	event("half")->ready = 0;
	content = written(false);
	assert_null(strstr(content, "half"));
	free(content);
}

static void a_write_that_fails_is_told(void **arg)
{
	static struct guard_sigsafe text;
	int full = open("/dev/full", O_WRONLY);

	(void)arg;
	guard_sigsafe_begin(&text, full);
	guard_report(&text, state, GUARD_LIVE, false);
	assert_int_equal(guard_sigsafe_end(&text), -EIO);
	close(full);
}

static void sizes_are_cut_not_rounded(void **arg)
{
	static const struct {
		uint64_t bytes;
		const char *want;
	} cases[] = {
		{ 0, "0 B" },
		{ 1023, "1023 B" },
		{ 1024, "1 KiB" },
		{ 1536, "1.5 KiB" },
		{ 12ULL << 30, "12 GiB" },
		{ (12ULL << 30) - 1, "11.9 GiB" },
		{ UINT64_MAX, "15.9 EiB" },
	};

	(void)arg;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(guard_size(cases[i].bytes).text, cases[i].want);
}

static void a_format_prints_what_printf_prints(void **arg)
{
	static struct guard_sigsafe text;
	char want[200];

	(void)arg;
	guard_sigsafe_begin(&text, -1);
#define FORMAT "%s|%-6s|%-2s|%d|%u|%" PRIu64 "|%" PRIu64 "|%#" PRIx64 "|end"
#define ARGUMENTS "word", "pad", "long", -42, 42u, UINT64_MAX, (uint64_t)0, UINT64_MAX
	guard_sigsafe_print(&text, FORMAT, ARGUMENTS);
	snprintf(want, sizeof(want), FORMAT, ARGUMENTS);
	text.buf[text.used] = '\0';
	assert_string_equal(text.buf, want);
}

static void a_buffer_without_a_file_is_cut(void **arg)
{
	static struct guard_sigsafe text;

	(void)arg;
	guard_sigsafe_begin(&text, -1);
	for (size_t i = 0; i < sizeof(text.buf); i++)
		guard_sigsafe_print(&text, "%s", "abc");
	assert_int_equal(text.used, sizeof(text.buf));
	assert_int_equal(guard_sigsafe_end(&text), 0);
}

static void an_unknown_word_leaves_the_safe_policy(void **arg)
{
	struct guard_policy policy;
	struct mrg_error error;

	(void)arg;
	assert_int_equal(guard_policy_read(&policy, &error), 0);
	assert_int_equal(policy.at_risk, GUARD_REFUSE);
	assert_int_equal(policy.unknown, GUARD_ALLOW);
	setenv(GUARD_ENV, "off", 1);
	assert_int_equal(guard_policy_read(&policy, &error), -EINVAL);
	assert_string_equal(error.cause,
			    "MRGUARD_GUARD is \"off\", which is unknown, so the default applies.");
	assert_int_equal(policy.at_risk, GUARD_REFUSE);
	setenv(GUARD_ENV, "observe", 1);
	assert_int_equal(guard_policy_read(&policy, &error), 0);
	assert_int_equal(policy.unknown, GUARD_OBSERVE);
	setenv(GUARD_ENV_UNKNOWN, "refuse", 1);
	setenv(GUARD_ENV_FORMAT, "json", 1);
	assert_int_equal(guard_policy_read(&policy, &error), 0);
	assert_int_equal(policy.unknown, GUARD_REFUSE);
	assert_true(policy.json);
	setenv(GUARD_ENV_FORMAT, "xml", 1);
	assert_int_equal(guard_policy_read(&policy, &error), -EINVAL);
	assert_non_null(strstr(error.cause, GUARD_ENV_FORMAT));
}

static void a_path_gets_the_process_id_and_is_not_cut(void **arg)
{
	char path[64];

	(void)arg;
	assert_true(guard_report_path("/tmp/%p-%p.%%", 12, path, sizeof(path)));
	assert_string_equal(path, "/tmp/12-12.%%");
	assert_false(guard_report_path("/tmp/%p-%p-%p-%p-%p-%p", 2147483647, path, 40));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(json_parses_whatever_is_in_it),
		TEST(every_number_of_an_enum_has_words),
		TEST(text_names_what_is_left_and_is_short),
		TEST(an_event_that_is_half_written_is_not_shown),
		TEST(a_write_that_fails_is_told),
		TEST(sizes_are_cut_not_rounded),
		TEST(a_format_prints_what_printf_prints),
		TEST(a_buffer_without_a_file_is_cut),
		TEST(an_unknown_word_leaves_the_safe_policy),
		TEST(a_path_gets_the_process_id_and_is_not_cut),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("guard's report", tests, NULL, NULL);
}
