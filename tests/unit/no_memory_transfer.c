/* SPDX-License-Identifier: MIT */
/*
 * Each allocation of two endpoints' whole life fails once, on either side: the life
 * ends with an error or well, keeps nothing, and the next one works.
 */
#include "failing.h"

#ifndef FAILING_SANITIZED
#include "transfer_fake.h"

#define LENGTH 65536ull
#define WAIT_MS 1000

static struct fake_buffer local, remote;

static int moves(struct mrg_ep *ep)
{
	const struct mrg_submit_opts opts = { .size = sizeof(opts), .flags = MRG_SUBMIT_WAIT };
	const struct mrg_local part = { .mr = &local.mr, .addr = local.mr.addr, .length = LENGTH };
	const struct mrg_op op = { .code = MRG_OP_WRITE,
				   .local_count = 1,
				   .local = &part,
				   .remote = remote.remote,
				   .remote_addr = remote.remote->addr };
	struct mrg_result result;
	uint64_t request;
	int ret;

	memset(remote.bytes, 0, LENGTH);
	ret = mrg_submit(ep, &op, 1, &opts, &request);
	if (ret)
		return ret;
	ret = mrg_wait(ep, request, WAIT_MS);
	if (!ret) {
		mrg_request_result(ep, request, &result);
		ret = result.status;
	}
	/* What ended well has arrived. */
	assert_true(ret || !memcmp(local.bytes, remote.bytes, LENGTH));
	if (ret == -ETIMEDOUT)
		mrg_cancel(ep, request);
	mrg_request_free(ep, request);
	return ret;
}

static int meets(struct fake_sides *sides)
{
	int ret = mrg_ep_connect(sides->a, "127.0.0.1", sides->port, &sides->ep);

	if (!ret)
		ret = mrg_listener_accept(sides->listener, WAIT_MS, &sides->peer);
	if (!ret)
		ret = moves(sides->ep);
	mrg_ep_close(sides->ep);
	mrg_ep_close(sides->peer);
	return ret;
}

static int endpoints(void)
{
	const struct mrg_transfer_opts opts = { .size = sizeof(opts), .handshake_ms = WAIT_MS };
	struct fake_sides sides = { 0 };
	int ret = transfer_open(&sides.a, &net.nics[0].pd, &opts, &fake_ops);

	if (!ret)
		ret = transfer_open(&sides.b, &net.nics[1].pd, &opts, &fake_ops);
	if (!ret)
		ret = mrg_listener_open(sides.b, "127.0.0.1", NULL, &sides.listener);
	if (!ret) {
		snprintf(sides.port, sizeof(sides.port), "%u", mrg_listener_port(sides.listener));
		ret = meets(&sides);
	}
	mrg_listener_close(sides.listener);
	mrg_transfer_close(sides.a);
	mrg_transfer_close(sides.b);
	return ret;
}

static void endpoints_say_what_they_lack(void **state)
{
	(void)state;
	buffer_make(&local, 0, LENGTH, 10000);
	buffer_make(&remote, 1, LENGTH, 30000);
	buffer_fill(&local, 1);
	/* The control: failures did arrive. */
	assert_true(failing_each(endpoints, ENOMEM, 0, "endpoints") > 10);
	buffer_free(&local);
	buffer_free(&remote);
}

int main(void)
{
	const struct CMUnitTest tests[] = { FAKE_TEST(endpoints_say_what_they_lack) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("endpoints without memory", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("1..0 # SKIP a sanitizer's allocator cannot be replaced");
	return 0;
}
#endif
