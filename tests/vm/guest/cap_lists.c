/* SPDX-License-Identifier: MIT */
/*
 * Under mrguard_cap.ko the kernel's own pick and walk give no list a wrong
 * block, and the model, told of the cap, gives the same blocks.
 */
#include "kernel_lists.h"

#define FULL_LISTS 1000000
#define CI_LISTS 4000
#define WIDE_ALONE (~0ULL << MODEL_WIDE_SHIFT)

/* The cap leaves a device that offers no smaller page as it is. */
static bool is_capped(const struct sample *s)
{
	return s->bitmap & ~WIDE_ALONE;
}

static void draw(struct sample *s, struct random *r, const struct comparison *c)
{
	sample_draw(s, r, page, c->walk, most_blocks(r));
	if (one_in(r, 64) && s->bitmap & WIDE_ALONE)
		s->bitmap &= WIDE_ALONE;
}

static void compare(struct sample *s, struct comparison *c)
{
	if (!sample_differs(s, c))
		return;
	sample_shrink(s, sample_differs, c);
	show_difference(s, c);
	fail();
}

static void no_list_gets_a_wrong_block_and_the_model_agrees(void **state)
{
	unsigned long n = full_run() ? FULL_LISTS : CI_LISTS;
	struct comparison capped = { .walk = info.walk, .capped = true }, uncapped = capped;
	struct random r = { random_seed() };
	struct sample s;

	(void)state;
	while (capped.lists < n) {
		draw(&s, &r, &capped);
		compare(&s, is_capped(&s) ? &capped : &uncapped);
	}
	printf("# %lu lists, %lu blocks, 0 mismatches, %lu with wrong blocks; the cap took pages from %lu\n",
	       capped.lists, capped.blocks, capped.wrong, capped.changed);
	printf("# %lu lists of devices with wide pages alone, %lu of them with wrong blocks\n",
	       uncapped.lists, uncapped.wrong);
	assert_int_equal(capped.wrong, 0);
	assert_int_equal(capped.wide, 0);
	assert_true(capped.changed > n / 2);
	assert_true(uncapped.lists > n / 200);
}

/* The control: the same kind of lists, in the model without the cap. */
static void a_model_that_does_not_know_the_cap_is_found_out(void **state)
{
	struct comparison c = { .walk = info.walk };
	struct random r = { random_seed() };
	unsigned int n = 500;
	struct sample s;

	(void)state;
	do {
		assert_true(n--);
		sample_draw(&s, &r, page, c.walk, 64);
	} while (!sample_differs(&s, &c));
}

/* And the kernel with the cap made ineffective, against the model with it. */
static void a_cap_that_has_no_effect_is_found_out(void **state)
{
	struct comparison c = { .walk = info.walk, .capped = true };
	struct random r = { random_seed() };
	unsigned int n = 500;
	struct sample s;

	(void)state;
	assert_int_equal(system("echo 0 >/sys/kernel/debug/kprobes/enabled"), 0);
	do {
		assert_true(n--);
		sample_draw(&s, &r, page, c.walk, 64);
	} while (!sample_differs(&s, &c));
	assert_int_equal(system("echo 1 >/sys/kernel/debug/kprobes/enabled"), 0);
}

static int close_and_unload(void **state)
{
	int err = close_device(state);

	return system("modprobe -r mrguard_cap") || err;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_list_gets_a_wrong_block_and_the_model_agrees),
		cmocka_unit_test(a_model_that_does_not_know_the_cap_is_found_out),
		cmocka_unit_test(a_cap_that_has_no_effect_is_found_out),
	};

	if (system("modprobe -a mrguard_walk mrguard_cap"))
		return 99;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cap_lists", tests, open_device, close_and_unload);
}
