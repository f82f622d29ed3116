/* SPDX-License-Identifier: MIT */
/* Which way a transfer goes, for peers of all kinds. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <mrguard/path.h>

#define ETHERNET 2
#define INFINIBAND 1
#define REMOTE 6 /* IBV_ACCESS_REMOTE_WRITE | _READ */

static struct mrg_desc_device local_devices[4], remote_devices[4];
static struct mrg_desc_share hip = { .protocol = MRG_PROTO_HIP_IPC,
				     .bytes = (uint8_t *)"h",
				     .length = 1 };
static struct mrg_descriptor local, remote;
static struct mrg_path path;
static struct mrg_error error;

static int set_up(void **state)
{
	(void)state;
	unsetenv("MRGUARD_PROTOCOLS");
	for (int i = 0; i < 4; i++) {
		local_devices[i] = (struct mrg_desc_device){ .link_layer = ETHERNET,
							     .port = 1,
							     .access = REMOTE };
		local_devices[i].name[0] = (char)('a' + i);
		remote_devices[i] = local_devices[i];
	}
	local = (struct mrg_descriptor){ .length = 1,
					 .boot = { 1 },
					 .host = "node",
					 .devices = local_devices,
					 .device_count = 1 };
	remote = (struct mrg_descriptor){ .length = 1,
					  .boot = { 1 },
					  .host = "node",
					  .devices = remote_devices,
					  .device_count = 1,
					  .shares = &hip,
					  .share_count = 1 };
	memset(&path, 0, sizeof(path));
	return 0;
}

static enum mrg_protocol way(const struct mrg_path_opts *opts)
{
	if (mrg_path_choose(&local, &remote, opts, &path, &error))
		return MRG_PROTO_NONE;
	return path.protocol;
}

static void one_machine_takes_the_share(void **state)
{
	(void)state;
	assert_int_equal(way(NULL), MRG_PROTO_HIP_IPC);
}

static void another_machine_takes_verbs(void **state)
{
	(void)state;
	remote.boot[0] = 2;
	strcpy(remote.host, "other");
	assert_int_equal(way(NULL), MRG_PROTO_VERBS);
}

static void a_machine_of_the_same_name_is_another_machine(void **state)
{
	(void)state;
	remote.boot[15] = 9;
	assert_string_equal(local.host, remote.host);
	assert_int_equal(way(NULL), MRG_PROTO_VERBS);
}

static void machines_whose_boot_id_is_not_known_are_never_one(void **state)
{
	(void)state;
	local.boot[0] = remote.boot[0] = 0;
	assert_int_equal(way(NULL), MRG_PROTO_VERBS);
}

static void across_machines_without_verbs_there_is_no_way(void **state)
{
	(void)state;
	remote.boot[0] = 2;
	remote.device_count = 0;
	assert_int_equal(mrg_path_choose(&local, &remote, NULL, &path, &error), -EHOSTUNREACH);
	assert_non_null(strstr(error.cause, "hip-ipc"));
	assert_non_null(strstr(error.cause, "boot ids"));
	assert_non_null(strstr(error.cause, "not registered for verbs"));
}

/* ---- probes ---- */

static uint32_t probed;
static int probe_answers[MRG_PROTO_COUNT];

static int probe(void *arg, enum mrg_protocol protocol, const struct mrg_descriptor *mine,
		 uint32_t index, const struct mrg_descriptor *theirs, uint32_t other,
		 struct mrg_error *why)
{
	(void)arg, (void)mine, (void)theirs, (void)index, (void)other;
	probed |= MRG_PROTO_BIT(protocol);
	strcpy(why->cause, "The probe says no.");
	return probe_answers[protocol];
}

static void a_share_that_does_not_work_gives_way_to_verbs(void **state)
{
	const struct mrg_path_opts opts = { .size = sizeof(opts), .probe = probe };

	(void)state;
	probe_answers[MRG_PROTO_HIP_IPC] = -ESTALE;
	assert_int_equal(way(&opts), MRG_PROTO_VERBS);
	probe_answers[MRG_PROTO_HIP_IPC] = 0;
	assert_int_equal(way(&opts), MRG_PROTO_HIP_IPC);
}

static void another_machines_share_is_not_even_probed(void **state)
{
	const struct mrg_path_opts opts = { .size = sizeof(opts), .probe = probe };

	(void)state;
	remote.boot[0] = 2;
	probed = 0;
	assert_int_equal(way(&opts), MRG_PROTO_VERBS);
	assert_int_equal(probed, MRG_PROTO_BIT(MRG_PROTO_VERBS));
}

static int crosswise(void *arg, enum mrg_protocol protocol, const struct mrg_descriptor *mine,
		     uint32_t index, const struct mrg_descriptor *theirs, uint32_t other,
		     struct mrg_error *why)
{
	(void)arg, (void)mine, (void)theirs, (void)why;
	return protocol != MRG_PROTO_VERBS || index + other == 3 ? 0 : -ENETUNREACH;
}

static void rails_join_the_devices_between_which_there_is_a_route(void **state)
{
	const struct mrg_path_opts opts = { .size = sizeof(opts),
					    .probe = crosswise,
					    .bytes = 1 << 20 };

	(void)state;
	remote.boot[0] = 2;
	local.device_count = remote.device_count = 4;
	assert_int_equal(way(&opts), MRG_PROTO_VERBS);
	assert_int_equal(path.rail_count, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(path.rails[i].local, i);
		assert_int_equal(path.rails[i].remote, 3 - i);
	}
}

/* ---- rails ---- */

static void a_small_transfer_takes_the_nearest_device_and_a_large_one_all(void **state)
{
	static const uint32_t near[] = { 2, 3, 0, 1 };
	struct mrg_path_opts opts = {
		.size = sizeof(opts), .near = near, .near_count = 4, .bytes = (1 << 20) - 1
	};

	(void)state;
	remote.boot[0] = 2;
	local.device_count = remote.device_count = 4;
	assert_int_equal(way(&opts), MRG_PROTO_VERBS);
	assert_int_equal(path.rail_count, 1);
	assert_int_equal(path.rails[0].local, 2);
	opts.bytes++;
	assert_int_equal(way(&opts), MRG_PROTO_VERBS);
	assert_int_equal(path.rail_count, 4);
	assert_int_equal(path.rails[3].local, 1);
	assert_int_equal(path.rails[3].remote, 1);
}

static void an_empty_list_of_near_devices_is_named(void **state)
{
	static const uint32_t near[] = { 0 };
	const struct mrg_path_opts opts = { .size = sizeof(opts), .near = near };

	(void)state;
	remote.boot[0] = 2;
	assert_int_equal(way(&opts), MRG_PROTO_NONE);
	assert_non_null(strstr(error.cause, "no local device is near"));
}

static void more_local_devices_than_remote_ones_share_them(void **state)
{
	const struct mrg_path_opts opts = { .size = sizeof(opts), .bytes = 1 << 30 };

	(void)state;
	remote.boot[0] = 2;
	local.device_count = 4;
	remote.device_count = 2;
	assert_int_equal(way(&opts), MRG_PROTO_VERBS);
	assert_int_equal(path.rail_count, 4);
	assert_int_equal(path.rails[2].remote, 0);
	assert_int_equal(path.rails[3].remote, 1);
}

static void link_layers_are_not_mixed(void **state)
{
	(void)state;
	remote.boot[0] = 2;
	remote_devices[0].link_layer = INFINIBAND;
	assert_int_equal(way(NULL), MRG_PROTO_NONE);
	assert_non_null(strstr(error.cause, "link layer"));
	remote.device_count = 2;
	assert_int_equal(way(NULL), MRG_PROTO_VERBS);
	assert_int_equal(path.rails[0].remote, 1);
}

static void mrs_without_remote_access_are_no_way(void **state)
{
	(void)state;
	remote.boot[0] = 2;
	remote_devices[0].access = 1;
	assert_int_equal(way(NULL), MRG_PROTO_NONE);
	assert_non_null(strstr(error.cause, "neither remote read nor write"));
}

/* ---- order and reasons ---- */

static void the_callers_order_is_kept(void **state)
{
	static const enum mrg_protocol order[] = { MRG_PROTO_VERBS, MRG_PROTO_HIP_IPC };
	const struct mrg_path_opts opts = { .size = sizeof(opts),
					    .order = order,
					    .order_count = 2 };

	(void)state;
	assert_int_equal(way(&opts), MRG_PROTO_VERBS);
	local.device_count = 0;
	assert_int_equal(way(&opts), MRG_PROTO_HIP_IPC);
}

static void the_environment_orders_and_excludes(void **state)
{
	static const enum mrg_protocol order[] = { MRG_PROTO_HIP_IPC };
	const struct mrg_path_opts opts = { .size = sizeof(opts),
					    .order = order,
					    .order_count = 1 };

	(void)state;
	setenv("MRGUARD_PROTOCOLS", "-hip-ipc", 1);
	assert_int_equal(way(NULL), MRG_PROTO_VERBS);
	assert_int_equal(way(&opts), MRG_PROTO_NONE);
	assert_non_null(strstr(error.cause, "MRGUARD_PROTOCOLS"));
	setenv("MRGUARD_PROTOCOLS", "verbs,hip-ipc", 1);
	assert_int_equal(way(&opts), MRG_PROTO_VERBS);
	setenv("MRGUARD_PROTOCOLS", "tcp", 1);
	assert_int_equal(mrg_path_choose(&local, &remote, NULL, &path, &error), -EINVAL);
	assert_non_null(strstr(error.cause, "tcp"));
}

static const struct mrg_path_reason *reason_of(const struct mrg_path_reason *reasons,
					       enum mrg_protocol protocol)
{
	while (reasons->protocol != protocol)
		reasons++;
	return reasons;
}

static void each_protocol_has_its_reason(void **state)
{
	struct mrg_path_reason reasons[MRG_PROTO_COUNT];

	(void)state;
	setenv("MRGUARD_PROTOCOLS", "-host-shm", 1);
	remote.boot[0] = 2;
	assert_int_equal(mrg_explain_path(&local, &remote, NULL, reasons, &path),
			 MRG_PROTO_COUNT - 1);
	assert_int_equal(reason_of(reasons, MRG_PROTO_HIP_IPC)->code, -EXDEV);
	assert_non_null(
		strstr(reason_of(reasons, MRG_PROTO_HIP_IPC)->why, "01000000 and 02000000"));
	assert_int_equal(reason_of(reasons, MRG_PROTO_CUDA_VMM)->code, -ENOPROTOOPT);
	assert_int_equal(reason_of(reasons, MRG_PROTO_HOST_SHM)->code, -EPERM);
	assert_int_equal(reason_of(reasons, MRG_PROTO_VERBS)->code, 0);
	assert_true(reason_of(reasons, MRG_PROTO_VERBS)->chosen);
	assert_int_equal(path.protocol, MRG_PROTO_VERBS);
}

static void the_explanation_and_the_choice_agree(void **state)
{
	struct mrg_path_reason reasons[MRG_PROTO_COUNT];
	struct mrg_path explained;
	const struct mrg_path_opts opts = { .size = sizeof(opts), .probe = probe };

	(void)state;
	for (unsigned int i = 0; i < 64; i++) {
		set_up(NULL);
		remote.boot[0] = i & 1 ? 1 : 2;
		remote.device_count = i >> 1 & 1;
		local.device_count = i >> 2 & 1;
		remote.share_count = i >> 3 & 1;
		probe_answers[MRG_PROTO_HIP_IPC] = i >> 4 & 1 ? -ESTALE : 0;
		probe_answers[MRG_PROTO_VERBS] = i >> 5 & 1 ? -ENETUNREACH : 0;
		memset(&explained, 0, sizeof(explained));
		mrg_explain_path(&local, &remote, &opts, reasons, &explained);
		assert_int_equal(way(&opts), explained.protocol);
	}
	memset(probe_answers, 0, sizeof(probe_answers));
}

#define WAY(test) cmocka_unit_test_setup(test, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WAY(one_machine_takes_the_share),
		WAY(another_machine_takes_verbs),
		WAY(a_machine_of_the_same_name_is_another_machine),
		WAY(machines_whose_boot_id_is_not_known_are_never_one),
		WAY(across_machines_without_verbs_there_is_no_way),
		WAY(a_share_that_does_not_work_gives_way_to_verbs),
		WAY(another_machines_share_is_not_even_probed),
		WAY(rails_join_the_devices_between_which_there_is_a_route),
		WAY(a_small_transfer_takes_the_nearest_device_and_a_large_one_all),
		WAY(an_empty_list_of_near_devices_is_named),
		WAY(more_local_devices_than_remote_ones_share_them),
		WAY(link_layers_are_not_mixed),
		WAY(mrs_without_remote_access_are_no_way),
		WAY(the_callers_order_is_kept),
		WAY(the_environment_orders_and_excludes),
		WAY(each_protocol_has_its_reason),
		WAY(the_explanation_and_the_choice_agree),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("path choice", tests, NULL, NULL);
}
