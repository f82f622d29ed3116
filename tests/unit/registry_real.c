/* SPDX-License-Identifier: MIT */
/* The registry over real registration (with verbs that are made up) and real
 * shares of host memory: the descriptor is enough for a peer. */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "registry/registry.h"
#include "region_fake.h"

#define ADDR 0x700000000000ull
#define LENGTH (6 * GIB)

static struct mrg_ctx *ctx;
static struct mrg_share *share;
static struct mrg_registry *registry;
static struct registry_ops ops;

/* Everything real but the question that goes to hardware. */
static int name_device(struct mrg_registry *in, struct registry_device *device)
{
	(void)in;
	strcpy(device->name, "fake0");
	device->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

static int set_up(void **state)
{
	struct mrg_registry_device device = { .pd = &host.pd };
	struct mrg_registry_opts opts = { .size = sizeof(opts),
					  .devices = &device,
					  .device_count = 1 };

	fake_setup(state);
	ctx = opts.ctx = open_fake();
	assert_int_equal(mrg_share_open(&share, NULL), 0);
	opts.share = share;
	ops = registry_ops_real;
	ops.device = name_device;
	assert_int_equal(registry_open_with(&registry, &opts, &ops), 0);
	return 0;
}

static int tear_down(void **state)
{
	host.dereg_fails = 0;
	assert_int_equal(mrg_registry_close(registry), 0);
	mrg_share_close(share);
	mrg_close(ctx);
	return fake_teardown(state);
}

static void a_large_dmabuf_is_told_of_as_its_mrs(void **state)
{
	const struct mrg_dmabuf dmabuf = { .fd = 5, .base = ADDR };
	const struct mrg_reg_opts reg = { .size = sizeof(reg), .max_mr_size = 2 * GIB };
	const struct mrg_buffer_opts opts = {
		.size = sizeof(opts), .access = all_access, .dmabuf = &dmabuf, .reg = &reg
	};
	struct mrg_descriptor desc;
	struct mrg_buffer *buffer;
	struct mrg_seg local[4], remote[4];
	ssize_t count;

	(void)state;
	host.module_error = -ENOENT;
	assert_int_equal(mrg_buffer_register(registry, ADDR, LENGTH, &opts, &buffer), 0);
	assert_int_equal(mrg_buffer_describe(buffer, 0, &desc), 0);
	assert_int_equal(desc.devices[0].count, host.live_count);
	assert_true(host.live_count >= 3);
	count = mrg_buffer_keys(buffer, 0, ADDR + GIB, 3 * GIB, local, 4);
	assert_int_equal(mrg_descriptor_keys(&desc, 0, ADDR + GIB, 3 * GIB, remote, 4), count);
	for (ssize_t i = 0; i < count; i++) {
		assert_int_equal(local[i].wire, remote[i].wire);
		assert_int_equal(local[i].length, remote[i].length);
		assert_int_equal(local[i].rkey, remote[i].rkey);
	}
	mrg_descriptor_release(&desc);
	assert_int_equal(mrg_buffer_unregister(buffer, 0), 0);
	assert_int_equal(host.live_count, 0);
}

static void a_failure_of_verbs_names_device_and_cause(void **state)
{
	const struct mrg_dmabuf dmabuf = { .fd = 5, .base = ADDR };
	const struct mrg_buffer_opts opts = { .size = sizeof(opts),
					      .access = all_access,
					      .dmabuf = &dmabuf };
	struct mrg_buffer *buffer = NULL;
	struct mrg_error error;

	(void)state;
	host.dmabuf_size = GIB;
	assert_int_equal(mrg_buffer_register(registry, ADDR, LENGTH, &opts, &buffer), -EINVAL);
	assert_null(buffer);
	assert_int_equal(mrg_registry_last_error(registry, &error), 0);
	assert_non_null(strstr(error.cause, "fake0: "));
}

static void a_bound_window_is_left_and_tried_again(void **state)
{
	const struct mrg_dmabuf dmabuf = { .fd = 5, .base = ADDR };
	const struct mrg_buffer_opts opts = { .size = sizeof(opts),
					      .access = all_access,
					      .dmabuf = &dmabuf };
	struct mrg_buffer *buffer;
	size_t calls;

	(void)state;
	assert_int_equal(mrg_buffer_register(registry, ADDR, MIB, &opts, &buffer), 0);
	host.dereg_fails = host.dereg_calls + 1;
	assert_int_equal(mrg_buffer_unregister(buffer, 0), -EBUSY);
	assert_int_equal(host.live_count, 1);
	calls = host.dereg_calls;
	assert_int_equal(mrg_buffer_unregister(buffer, 0), 0);
	assert_int_equal(host.dereg_calls, calls + 1);
}

static int make_memfd(size_t bytes)
{
	int fd = memfd_create("mrguard-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

/* In another process: what the descriptor's share leads to is the memory. */
static int import_and_read(const struct mrg_descriptor *desc)
{
	const struct mrg_desc_share *way = mrg_descriptor_share(desc, MRG_PROTO_HOST_SHM);
	struct mrg_import *import;
	struct mrg_share *own;

	if (!way || mrg_share_open(&own, NULL) ||
	    mrg_share_import(own, way->bytes, way->length, NULL, &import))
		return 1;
	return strcmp((const char *)(uintptr_t)mrg_import_address(import), "hello") ? 2 : 0;
}

static void host_memory_is_reached_by_verbs_and_by_a_process_beside(void **state)
{
	const size_t bytes = 1 << 20;
	const struct mrg_memfd memfd = { .fd = make_memfd(bytes), .length = bytes };
	const struct mrg_buffer_opts opts = {
		.size = sizeof(opts),
		.access = all_access,
		.memfds = &memfd,
		.memfd_count = 1,
		.protocols = MRG_PROTO_BIT(MRG_PROTO_VERBS) | MRG_PROTO_BIT(MRG_PROTO_HOST_SHM),
		.lazy = MRG_PROTO_BIT(MRG_PROTO_VERBS),
	};
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd.fd, 0);
	struct mrg_descriptor desc;
	struct mrg_buffer *buffer;
	int status;
	pid_t pid;

	(void)state;
	strcpy(memory, "hello");
	assert_int_equal(mrg_buffer_register(registry, (uintptr_t)memory, bytes, &opts, &buffer),
			 0);
	close(memfd.fd);
	assert_int_equal(mrg_buffer_describe(buffer, MRG_PROTO_BIT(MRG_PROTO_HOST_SHM), &desc), 0);
	assert_int_equal(host.calls, 0);
	pid = fork();
	if (!pid)
		_exit(import_and_read(&desc));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	mrg_descriptor_release(&desc);
	assert_int_equal(mrg_buffer_require(buffer, MRG_PROTO_BIT(MRG_PROTO_VERBS)), 0);
	assert_int_equal(host.calls, 1);
	assert_int_equal(mrg_buffer_unregister(buffer, 0), 0);
	munmap(memory, bytes);
}

static void memfds_of_another_length_are_refused(void **state)
{
	const struct mrg_memfd memfd = { .fd = make_memfd(8192), .length = 8192 };
	const struct mrg_buffer_opts opts = {
		.size = sizeof(opts),
		.memfds = &memfd,
		.memfd_count = 1,
		.protocols = MRG_PROTO_BIT(MRG_PROTO_HOST_SHM),
	};
	struct mrg_buffer *buffer = NULL;

	(void)state;
	assert_int_equal(mrg_buffer_register(registry, ADDR, 4096, &opts, &buffer), -EINVAL);
	assert_null(buffer);
	close(memfd.fd);
}

#define ON_FAKE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_FAKE(a_large_dmabuf_is_told_of_as_its_mrs),
		ON_FAKE(a_failure_of_verbs_names_device_and_cause),
		ON_FAKE(a_bound_window_is_left_and_tried_again),
		ON_FAKE(host_memory_is_reached_by_verbs_and_by_a_process_beside),
		ON_FAKE(memfds_of_another_length_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("registry over verbs and shares", tests, NULL, NULL);
}
