/* SPDX-License-Identifier: MIT */
/* What a registry promises about buffers, entries and failures. */
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "registry_fake.h"

#define A 0x7f0000000000ull
#define MIB (1ull << 20)

static struct mrg_registry *registry;

static int set_up(void **state)
{
	(void)state;
	registry = fake_open(FAKE_DEVICES);
	fake.logs = true;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fake.remove_fails = 0;
	fake_close(registry);
	return 0;
}

static int reg(uint64_t addr, uint64_t length, uint32_t protocols, struct mrg_buffer **buffer)
{
	const struct mrg_buffer_opts opts = { .size = sizeof(opts), .protocols = protocols };

	return mrg_buffer_register(registry, addr, length, &opts, buffer);
}

static struct mrg_buffer *must_reg(uint64_t addr, uint64_t length, uint32_t protocols)
{
	struct mrg_buffer *buffer = NULL;

	assert_int_equal(reg(addr, length, protocols, &buffer), 0);
	return buffer;
}

static void must_unreg(struct mrg_buffer *buffer)
{
	assert_int_equal(mrg_buffer_unregister(buffer, 0), 0);
}

static void expect_log(const char *log)
{
	assert_string_equal(fake.log, log);
	fake.log[0] = '\0';
}

/* The lkey that verbs would use for the byte, on a device; 0: none. */
static uint32_t key_at(uint64_t addr, size_t device)
{
	struct mrg_buffer *buffer;
	struct mrg_seg seg;

	if (mrg_registry_find(registry, MRG_PROTO_VERBS, device, addr, 1, NULL, &buffer))
		return 0;
	assert_int_equal(mrg_buffer_keys(buffer, device, addr, 1, &seg, 1), 1);
	mrg_buffer_put(buffer);
	return seg.lkey;
}

static int find(enum mrg_protocol protocol, uint64_t addr, uint64_t length,
		struct mrg_buffer **buffer)
{
	int ret = mrg_registry_find(registry, protocol, 0, addr, length, NULL, buffer);

	if (!ret)
		mrg_buffer_put(*buffer);
	return ret;
}

/* ---- twins ---- */

static void twins_give_verbs_the_verbs_key_in_both_orders(void **state)
{
	static const uint32_t orders[2][2] = {
		{ BIT(HIP_IPC), BIT(VERBS) },
		{ BIT(VERBS), BIT(HIP_IPC) },
	};
	struct mrg_buffer *buffer, *same;
	uint32_t serial = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		buffer = must_reg(A, MIB, orders[i][0]);
		same = must_reg(A, MIB, orders[i][1]);
		assert_ptr_equal(buffer, same);
		/* Of three entries made, verbs are either the last or the first two. */
		assert_int_equal(key_at(A, 1), FAKE_KEY(1, serial + (i ? 2 : 3)));
		assert_int_equal(mrg_buffer_protocols(buffer), BIT(HIP_IPC) | BIT(VERBS));
		serial += 3;
		must_unreg(buffer);
		must_unreg(buffer);
	}
}

static void twins_of_different_ranges_are_not_taken_for_each_other(void **state)
{
	struct mrg_buffer *hip, *verbs, *found;

	(void)state;
	hip = must_reg(A, MIB, BIT(HIP_IPC));
	verbs = must_reg(A, 4 * MIB, BIT(VERBS));
	assert_int_equal(find(MRG_PROTO_VERBS, A, 64, &found), 0);
	assert_ptr_equal(found, verbs);
	assert_int_equal(find(MRG_PROTO_HIP_IPC, A, 64, &found), 0);
	assert_ptr_equal(found, hip);
	must_unreg(hip);
	must_unreg(verbs);
}

static void a_buffer_of_hip_alone_is_said_to_be_not_registered_for_verbs(void **state)
{
	struct mrg_buffer *hip = must_reg(A, MIB, BIT(HIP_IPC)), *found;
	struct mrg_seg seg;

	(void)state;
	assert_int_equal(find(MRG_PROTO_VERBS, A, 64, &found), -ENOPROTOOPT);
	assert_int_equal(mrg_buffer_keys(hip, 0, A, 64, &seg, 1), -ENOPROTOOPT);
	assert_int_equal(find(MRG_PROTO_VERBS, A + MIB, 64, &found), -ERANGE);
	must_unreg(hip);
}

static void a_gpu_share_becomes_the_one_that_the_memory_allows(void **state)
{
	struct mrg_buffer *buffer;

	(void)state;
	fake.gpu_kind = BIT(CUDA_IPC);
	buffer = must_reg(A, MIB, BIT(CUDA_VMM) | BIT(CUDA_IPC));
	assert_int_equal(mrg_buffer_protocols(buffer), BIT(CUDA_IPC));
	assert_int_equal(mrg_buffer_require(buffer, BIT(CUDA_VMM) | BIT(CUDA_IPC)), 0);
	assert_int_equal(mrg_buffer_require(buffer, BIT(CUDA_VMM)), -ENOPROTOOPT);
	must_unreg(buffer);
	expect_log("+c -c ");
}

/* ---- counting, failing, trying again ---- */

static void the_same_range_is_counted_and_undone_with_the_last(void **state)
{
	struct mrg_buffer *first = must_reg(A, MIB, BIT(VERBS));
	struct mrg_buffer *second = must_reg(A, MIB, BIT(VERBS));

	(void)state;
	assert_ptr_equal(first, second);
	expect_log("+v0 +v1 ");
	must_unreg(first);
	expect_log("");
	assert_true(key_at(A, 0));
	must_unreg(second);
	expect_log("-v1 -v0 ");
	assert_false(key_at(A, 0));
}

static void the_same_range_with_other_access_is_refused(void **state)
{
	const struct mrg_buffer_opts less = { .size = sizeof(less), .access = 0 };
	const struct mrg_buffer_opts more = { .size = sizeof(more), .access = 7 };
	struct mrg_buffer *buffer, *other = NULL;

	(void)state;
	assert_int_equal(mrg_buffer_register(registry, A, MIB, &less, &buffer), 0);
	assert_int_equal(mrg_buffer_register(registry, A, MIB, &more, &other), -EEXIST);
	assert_null(other);
	must_unreg(buffer);
}

static void a_failing_protocol_rolls_the_others_back_last_first(void **state)
{
	struct mrg_buffer *buffer = NULL;
	struct mrg_error error;

	(void)state;
	fake.add_fails = BIT(HOST_SHM);
	assert_int_equal(reg(A, MIB, BIT(VERBS) | BIT(CUDA_IPC) | BIT(HOST_SHM), &buffer),
			 -ENOMEM - MRG_PROTO_HOST_SHM);
	expect_log("+v0 +v1 +c +s! -c -v1 -v0 ");
	assert_null(buffer);
	assert_int_equal(fake.live, 0);
	assert_int_equal(mrg_registry_last_error(registry, &error), 0);
	assert_string_equal(error.cause, "Protocol host-shm failed.");
}

static void a_second_registration_that_fails_leaves_the_first_whole(void **state)
{
	struct mrg_buffer *buffer = must_reg(A, MIB, BIT(CUDA_IPC)), *again = NULL;

	(void)state;
	fake.log[0] = '\0';
	fake.add_fails = BIT(VERBS);
	fake.fails_device = 1;
	assert_int_equal(reg(A, MIB, BIT(CUDA_IPC) | BIT(VERBS), &again),
			 -ENOMEM - MRG_PROTO_VERBS);
	expect_log("+v0 +v1! -v0 ");
	assert_false(key_at(A, 0));
	assert_int_equal(mrg_buffer_protocols(buffer), BIT(CUDA_IPC));
	must_unreg(buffer);
	expect_log("-c ");
}

static void a_retry_of_unregister_touches_only_what_is_left(void **state)
{
	struct mrg_buffer *buffer = must_reg(A, MIB, BIT(VERBS) | BIT(CUDA_IPC) | BIT(HOST_SHM));
	struct mrg_registry_stats stats;

	(void)state;
	fake.log[0] = '\0';
	fake.remove_fails = BIT(CUDA_IPC);
	assert_int_equal(mrg_buffer_unregister(buffer, 0), -EBUSY);
	expect_log("-s -c! -v1 -v0 ");
	mrg_registry_stats(registry, &stats);
	assert_int_equal(stats.leftover, 1);
	assert_int_equal(stats.buffers, 0);
	assert_int_equal(mrg_buffer_unregister(buffer, 0), -EBUSY);
	expect_log("-c! ");
	fake.remove_fails = 0;
	must_unreg(buffer);
	expect_log("-c ");
}

static void a_range_whose_rest_is_left_can_be_registered_again(void **state)
{
	struct mrg_buffer *old = must_reg(A, MIB, BIT(CUDA_IPC)), *fresh;

	(void)state;
	fake.remove_fails = BIT(CUDA_IPC);
	assert_int_equal(mrg_buffer_unregister(old, 0), -EBUSY);
	fake.remove_fails = 0;
	fresh = must_reg(A, MIB, BIT(CUDA_IPC));
	assert_ptr_not_equal(old, fresh);
	must_unreg(old);
	must_unreg(fresh);
}

static void what_a_failed_roll_back_leaves_is_undone_at_closing(void **state)
{
	struct mrg_buffer *buffer = NULL;
	struct mrg_registry_stats stats;

	(void)state;
	fake.add_fails = BIT(HOST_SHM);
	fake.remove_fails = BIT(CUDA_IPC);
	assert_true(reg(A, MIB, BIT(CUDA_IPC) | BIT(HOST_SHM), &buffer) < 0);
	mrg_registry_stats(registry, &stats);
	assert_int_equal(stats.leftover, 1);
	assert_int_equal(mrg_registry_close(registry), -EBUSY);
	fake.remove_fails = 0;
	fake_close(registry);
	registry = fake_open(FAKE_DEVICES);
}

static void closing_takes_what_is_registered_and_not_what_is_held(void **state)
{
	struct mrg_buffer *buffer = must_reg(A, MIB, BIT(VERBS));

	(void)state;
	must_reg(A + 2 * MIB, MIB, BIT(HOST_SHM));
	assert_int_equal(mrg_buffer_hold(buffer), 0);
	assert_int_equal(mrg_registry_close(registry), -EBUSY);
	mrg_buffer_put(buffer);
	fake_close(registry);
	registry = fake_open(FAKE_DEVICES);
}

static void the_first_of_two_failures_is_told(void **state)
{
	struct mrg_buffer *buffer = must_reg(A, MIB, BIT(VERBS) | BIT(CUDA_IPC) | BIT(HOST_SHM));
	struct mrg_error error;

	(void)state;
	fake.remove_fails = BIT(HOST_SHM) | BIT(CUDA_IPC);
	assert_int_equal(mrg_buffer_unregister(buffer, 0), -EBUSY);
	assert_int_equal(mrg_registry_last_error(registry, &error), 0);
	assert_non_null(strstr(error.cause, mrg_protocol_name(MRG_PROTO_HOST_SHM)));
	fake.remove_fails = 0;
	must_unreg(buffer);
}

/* ---- overlaps ---- */

static void overlaps_are_allowed_and_the_shortest_that_holds_all_is_taken(void **state)
{
	struct mrg_buffer *all = must_reg(A, 8 * MIB, BIT(VERBS)), *found;
	struct mrg_buffer *low = must_reg(A, 4 * MIB, BIT(VERBS));
	struct mrg_buffer *middle = must_reg(A + 3 * MIB, 2 * MIB, BIT(VERBS));

	(void)state;
	assert_int_equal(find(MRG_PROTO_VERBS, A + 3 * MIB, MIB, &found), 0);
	assert_ptr_equal(found, middle);
	assert_int_equal(find(MRG_PROTO_VERBS, A + 2 * MIB, MIB + 1, &found), 0);
	assert_ptr_equal(found, low);
	assert_int_equal(find(MRG_PROTO_VERBS, A + 2 * MIB, 2 * MIB + 1, &found), 0);
	assert_ptr_equal(found, all);
	assert_int_equal(find(MRG_PROTO_VERBS, A + 7 * MIB, MIB + 1, &found), -ERANGE);
	must_unreg(all);
	must_unreg(low);
	must_unreg(middle);
}

static void a_part_is_found_where_no_buffer_holds_all(void **state)
{
	struct mrg_buffer *a = must_reg(A, MIB, BIT(VERBS)), *found;
	struct mrg_buffer *b = must_reg(A + MIB / 2, MIB, BIT(VERBS));
	uint64_t covered;

	(void)state;
	assert_int_equal(mrg_registry_find(registry, MRG_PROTO_VERBS, 0, A + MIB / 2 + 16, 4 * MIB,
					   &covered, &found),
			 0);
	assert_ptr_equal(found, b);
	assert_int_equal(covered, MIB - 16);
	mrg_buffer_put(found);
	must_unreg(a);
	must_unreg(b);
}

static void a_buffer_may_end_with_the_address_space(void **state)
{
	struct mrg_buffer *last = must_reg(UINT64_MAX - 4095, 4096, BIT(VERBS)), *found;

	(void)state;
	assert_int_equal(find(MRG_PROTO_VERBS, UINT64_MAX, 1, &found), 0);
	assert_ptr_equal(found, last);
	assert_int_equal(find(MRG_PROTO_VERBS, UINT64_MAX, 2, &found), -EINVAL);
	must_unreg(last);
}

/* ---- holders ---- */

static void unregister_refuses_while_a_transfer_holds_the_buffer(void **state)
{
	struct mrg_buffer *buffer = must_reg(A, MIB, BIT(VERBS)), *held, *found;

	(void)state;
	assert_int_equal(mrg_registry_find(registry, MRG_PROTO_VERBS, 0, A, 1, NULL, &held), 0);
	fake.log[0] = '\0';
	assert_int_equal(mrg_buffer_unregister(buffer, 0), -EBUSY);
	assert_int_equal(mrg_buffer_unregister(buffer, 30), -ETIMEDOUT);
	expect_log("");
	assert_int_equal(find(MRG_PROTO_VERBS, A, 1, &found), 0);
	assert_int_equal(mrg_registry_close(registry), -EBUSY);
	mrg_buffer_put(held);
	must_unreg(buffer);
}

static void *put_later(void *held)
{
	const struct timespec while_ = { 0, 100 * 1000000 };
	struct mrg_buffer *found;

	nanosleep(&while_, NULL);
	assert_int_equal(find(MRG_PROTO_VERBS, A, 1, &found), -ERANGE);
	assert_int_equal(mrg_buffer_hold(held), -EBUSY);
	assert_int_equal(mrg_buffer_require(held, BIT(VERBS)), -EBUSY);
	mrg_buffer_put(held);
	return NULL;
}

static void unregister_waits_for_a_transfer_and_no_new_one_begins(void **state)
{
	struct mrg_buffer *buffer = must_reg(A, MIB, BIT(VERBS)), *held;
	pthread_t thread;

	(void)state;
	assert_int_equal(mrg_registry_find(registry, MRG_PROTO_VERBS, 0, A, 1, NULL, &held), 0);
	pthread_create(&thread, NULL, put_later, held);
	assert_int_equal(mrg_buffer_unregister(buffer, 20000), 0);
	pthread_join(thread, NULL);
	assert_int_equal(fake.live, 0);
}

static atomic_bool asks;

static void *ask_to_unregister(void *buffer)
{
	while (atomic_load(&asks))
		assert_int_equal(mrg_buffer_unregister(buffer, 0), -EBUSY);
	return NULL;
}

static void a_refused_unregister_never_hides_the_buffer(void **state)
{
	struct mrg_buffer *buffer = must_reg(A, MIB, BIT(VERBS)), *held, *found;
	pthread_t thread;

	(void)state;
	assert_int_equal(mrg_registry_find(registry, MRG_PROTO_VERBS, 0, A, 1, NULL, &held), 0);
	atomic_store(&asks, true);
	pthread_create(&thread, NULL, ask_to_unregister, buffer);
	for (int i = 0; i < 200000; i++)
		assert_int_equal(find(MRG_PROTO_VERBS, A, 1, &found), 0);
	atomic_store(&asks, false);
	pthread_join(thread, NULL);
	mrg_buffer_put(held);
	must_unreg(buffer);
}

static struct mrg_buffer *other;

static void *register_same(void *arg)
{
	(void)arg;
	other = must_reg(A, MIB, BIT(VERBS));
	return NULL;
}

static pthread_t racer;

static void start_racer(void)
{
	const struct timespec while_ = { 0, 50 * 1000000 };

	fake.on_add = NULL;
	pthread_create(&racer, NULL, register_same, NULL);
	nanosleep(&while_, NULL);
}

static void two_threads_that_register_one_range_get_one_buffer(void **state)
{
	struct mrg_buffer *buffer;

	(void)state;
	fake.on_add = start_racer;
	buffer = must_reg(A, MIB, BIT(VERBS));
	pthread_join(racer, NULL);
	assert_ptr_equal(buffer, other);
	expect_log("+v0 +v1 ");
	must_unreg(buffer);
	must_unreg(other);
}

/* ---- descriptors ---- */

static void a_descriptor_from_before_a_new_registration_is_stale(void **state)
{
	struct mrg_buffer *buffer = must_reg(A, MIB, BIT(VERBS)), *held;
	struct mrg_descriptor old, fresh;

	(void)state;
	assert_int_equal(mrg_buffer_describe(buffer, 0, &old), 0);
	assert_int_equal(mrg_registry_verify(registry, &old, &held), 0);
	assert_ptr_equal(held, buffer);
	mrg_buffer_put(held);
	must_unreg(buffer);
	assert_int_equal(mrg_registry_verify(registry, &old, NULL), -ESTALE);
	buffer = must_reg(A, MIB, BIT(VERBS));
	assert_int_equal(mrg_registry_verify(registry, &old, NULL), -ESTALE);
	assert_int_equal(mrg_buffer_describe(buffer, 0, &fresh), 0);
	assert_true(fresh.generation > old.generation);
	assert_int_equal(mrg_registry_verify(registry, &fresh, NULL), 0);
	fresh.instance++;
	assert_int_equal(mrg_registry_verify(registry, &fresh, NULL), -ESTALE);
	mrg_descriptor_release(&old);
	mrg_descriptor_release(&fresh);
	must_unreg(buffer);
}

static void a_descriptor_names_keys_by_device_and_tokens_by_protocol(void **state)
{
	struct mrg_buffer *buffer = must_reg(A, MIB, BIT(VERBS) | BIT(HIP_IPC));
	struct mrg_descriptor desc;
	struct mrg_seg segs[3];

	(void)state;
	assert_int_equal(mrg_buffer_describe(buffer, 0, &desc), 0);
	assert_int_equal(desc.device_count, 2);
	assert_string_equal(desc.devices[1].name, "fake1");
	assert_int_equal(desc.devices[1].guid, 0x101);
	assert_int_equal(mrg_descriptor_keys(&desc, 1, A + 16, MIB - 16, segs, 3), 2);
	assert_int_equal(segs[0].rkey, FAKE_KEY(1, 2));
	assert_int_equal(segs[1].rkey, FAKE_KEY(1, 2) + 1);
	assert_int_equal(desc.share_count, 1);
	assert_memory_equal(desc.shares[0].bytes, "hip-ipc", 7);
	mrg_descriptor_release(&desc);
	must_unreg(buffer);
}

static void lazy_verbs_are_not_made_for_local_peers(void **state)
{
	const struct mrg_buffer_opts opts = {
		.size = sizeof(opts),
		.protocols = BIT(VERBS) | BIT(HIP_IPC),
		.lazy = BIT(VERBS),
	};
	struct mrg_descriptor desc;
	struct mrg_buffer *buffer;

	(void)state;
	assert_int_equal(mrg_buffer_register(registry, A, MIB, &opts, &buffer), 0);
	assert_int_equal(mrg_buffer_describe(buffer, BIT(HIP_IPC), &desc), 0);
	assert_int_equal(desc.device_count, 0);
	mrg_descriptor_release(&desc);
	expect_log("+h ");
	assert_int_equal(mrg_buffer_describe(buffer, 0, &desc), 0);
	assert_int_equal(desc.device_count, 2);
	mrg_descriptor_release(&desc);
	expect_log("+v0 +v1 ");
	must_unreg(buffer);
}

/* ---- arguments, processes ---- */

static void malformed_options_are_refused(void **state)
{
	struct mrg_buffer *buffer = NULL;
	const struct mrg_buffer_opts lazy = { .size = sizeof(lazy),
					      .lazy = BIT(VERBS),
					      .protocols = BIT(CUDA_IPC) };
	const struct mrg_buffer_opts far = { .size = sizeof(far), .device_mask = 4 };
	static const struct mrg_registry_device devices[MRG_REGISTRY_MAX_DEVICES + 1];
	const struct mrg_registry_opts many = { .size = sizeof(many),
						.devices = devices,
						.device_count = MRG_REGISTRY_MAX_DEVICES + 1 };
	const struct mrg_registry_opts none = { .size = sizeof(none), .device_count = 1 };
	struct mrg_registry *refused;

	(void)state;
	assert_int_equal(registry_open_with(&refused, &many, fake_used), -EINVAL);
	assert_int_equal(registry_open_with(&refused, &none, fake_used), -EINVAL);
	assert_int_equal(reg(A, 0, 0, &buffer), -EINVAL);
	assert_int_equal(reg(UINT64_MAX, 2, 0, &buffer), -ERANGE);
	assert_int_equal(reg(A, MIB, 1u << MRG_PROTO_COUNT, &buffer), -EINVAL);
	assert_int_equal(mrg_buffer_register(registry, A, MIB, &lazy, &buffer), -EINVAL);
	assert_int_equal(mrg_buffer_register(registry, A, MIB, &far, &buffer), -EINVAL);
	expect_log("");
	assert_null(buffer);
}

static void a_registry_without_devices_says_that_it_has_no_verbs(void **state)
{
	struct mrg_registry *none = fake_open(0);
	const struct mrg_buffer_opts opts = { .size = sizeof(opts), .protocols = BIT(VERBS) };
	struct mrg_buffer *buffer = NULL;

	(void)state;
	assert_int_equal(mrg_buffer_register(none, A, MIB, NULL, &buffer), -EINVAL);
	assert_int_equal(mrg_buffer_register(none, A, MIB, &opts, &buffer), -EOPNOTSUPP);
	assert_int_equal(mrg_registry_find(none, MRG_PROTO_VERBS, 0, A, 1, NULL, &buffer), -EINVAL);
	assert_int_equal(mrg_registry_close(none), 0);
	fake.logs = true;
}

static void a_child_after_fork_is_refused(void **state)
{
	struct mrg_buffer *buffer = must_reg(A, MIB, BIT(VERBS)), *again;
	int status;
	pid_t pid = fork();

	(void)state;
	if (!pid)
		_exit(reg(A, MIB, BIT(VERBS), &again) == -ECHILD &&
				      mrg_buffer_unregister(buffer, 0) == -ECHILD &&
				      mrg_registry_close(registry) == -ECHILD ?
			      0 :
			      1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	must_unreg(buffer);
}

#define RULE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RULE(twins_give_verbs_the_verbs_key_in_both_orders),
		RULE(twins_of_different_ranges_are_not_taken_for_each_other),
		RULE(a_buffer_of_hip_alone_is_said_to_be_not_registered_for_verbs),
		RULE(a_gpu_share_becomes_the_one_that_the_memory_allows),
		RULE(the_same_range_is_counted_and_undone_with_the_last),
		RULE(the_same_range_with_other_access_is_refused),
		RULE(a_failing_protocol_rolls_the_others_back_last_first),
		RULE(a_second_registration_that_fails_leaves_the_first_whole),
		RULE(a_retry_of_unregister_touches_only_what_is_left),
		RULE(a_range_whose_rest_is_left_can_be_registered_again),
		RULE(what_a_failed_roll_back_leaves_is_undone_at_closing),
		RULE(closing_takes_what_is_registered_and_not_what_is_held),
		RULE(the_first_of_two_failures_is_told),
		RULE(overlaps_are_allowed_and_the_shortest_that_holds_all_is_taken),
		RULE(a_part_is_found_where_no_buffer_holds_all),
		RULE(a_buffer_may_end_with_the_address_space),
		RULE(unregister_refuses_while_a_transfer_holds_the_buffer),
		RULE(unregister_waits_for_a_transfer_and_no_new_one_begins),
		RULE(a_refused_unregister_never_hides_the_buffer),
		RULE(two_threads_that_register_one_range_get_one_buffer),
		RULE(a_descriptor_from_before_a_new_registration_is_stale),
		RULE(a_descriptor_names_keys_by_device_and_tokens_by_protocol),
		RULE(lazy_verbs_are_not_made_for_local_peers),
		RULE(malformed_options_are_refused),
		RULE(a_registry_without_devices_says_that_it_has_no_verbs),
		RULE(a_child_after_fork_is_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
