/* SPDX-License-Identifier: MIT */
/* Time to exhaustion, with the rates of the field reports. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <mrguard/vma.h>

#define LIMIT 65530
#define MINUTE 60000000000ULL

static struct mrg_vma_forecast forecast_of(uint64_t per_minute)
{
	struct mrg_vma_sample samples[10];
	struct mrg_vma_forecast forecast;

	for (uint64_t i = 0; i < 10; i++)
		samples[i] = (struct mrg_vma_sample){
			.ns = 5 * MINUTE + i * MINUTE,
			.count = 1200 - per_minute * (9 - i),
		};
	assert_int_equal(mrg_vma_forecast(samples, 10, LIMIT, &forecast), 0);
	return forecast;
}

static void assert_near(double value, double expected, double tolerance)
{
	assert_true(value > expected - tolerance && value < expected + tolerance);
}

static void seventeen_a_minute_leave_sixty_three_hours(void **state)
{
	struct mrg_vma_forecast forecast = forecast_of(17);

	(void)state;
	assert_true(forecast.rising);
	assert_near(forecast.per_minute, 17, 0.01);
	assert_near(forecast.seconds_left / 3600, 63.07, 0.05);
}

static void seventy_a_minute_leave_fifteen_hours(void **state)
{
	struct mrg_vma_forecast forecast = forecast_of(70);

	(void)state;
	assert_true(forecast.rising);
	assert_near(forecast.seconds_left / 3600, 15.32, 0.05);
}

static void a_flat_count_has_no_end(void **state)
{
	struct mrg_vma_forecast forecast = forecast_of(0);

	(void)state;
	assert_false(forecast.rising);
	assert_true(forecast.seconds_left < 0);
}

static void scatter_is_not_taken_for_a_rise(void **state)
{
	static const uint64_t counts[] = { 900, 940, 905, 935, 910, 930, 920, 925 };
	struct mrg_vma_sample samples[8];
	struct mrg_vma_forecast forecast;

	(void)state;
	for (size_t i = 0; i < 8; i++)
		samples[i] = (struct mrg_vma_sample){ .ns = i * MINUTE, .count = counts[i] };
	assert_int_equal(mrg_vma_forecast(samples, 8, LIMIT, &forecast), 0);
	assert_false(forecast.rising);
	assert_true(forecast.seconds_left < 0);
}

static void a_count_at_the_limit_has_no_time_left(void **state)
{
	struct mrg_vma_sample samples[] = { { .count = 65000 }, { .ns = MINUTE, .count = LIMIT } };
	struct mrg_vma_forecast forecast;

	(void)state;
	assert_int_equal(mrg_vma_forecast(samples, 2, LIMIT, &forecast), 0);
	assert_near(forecast.seconds_left, 0, 0.001);
}

static void one_sample_tells_nothing(void **state)
{
	struct mrg_vma_sample samples[] = { { .ns = 7, .count = 1 }, { .ns = 7, .count = 2 } };
	struct mrg_vma_forecast forecast;

	(void)state;
	assert_int_equal(mrg_vma_forecast(samples, 0, LIMIT, &forecast), -ENODATA);
	assert_int_equal(mrg_vma_forecast(samples, 1, LIMIT, &forecast), -ENODATA);
	assert_int_equal(mrg_vma_forecast(samples, 2, LIMIT, &forecast), -ENODATA);
	samples[1].reserved[0] = 1;
	assert_int_equal(mrg_vma_forecast(samples, 2, LIMIT, &forecast), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seventeen_a_minute_leave_sixty_three_hours),
		cmocka_unit_test(seventy_a_minute_leave_fifteen_hours),
		cmocka_unit_test(a_flat_count_has_no_end),
		cmocka_unit_test(scatter_is_not_taken_for_a_rise),
		cmocka_unit_test(a_count_at_the_limit_has_no_time_left),
		cmocka_unit_test(one_sample_tells_nothing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
