/* SPDX-License-Identifier: MIT */
/* What the kernel's answer about copy-on-fork is read as. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "region/fork_kernel.c"

static char answer[256];
static size_t length;

static void begin(uint16_t type)
{
	const struct nlmsghdr header = { .nlmsg_type = type };

	memset(answer, 0, sizeof(answer));
	memcpy(answer, &header, sizeof(header));
	length = NLMSG_HDRLEN;
}

static void add(uint16_t type, uint8_t value)
{
	const struct nlattr attr = { .nla_len = NLA_HDRLEN + 1, .nla_type = type };

	memcpy(answer + length, &attr, sizeof(attr));
	answer[length + NLA_HDRLEN] = (char)value;
	length += NLA_ALIGN(NLA_HDRLEN + 1);
}

static void expect(enum mrg_kernel_copies want)
{
	enum mrg_kernel_copies copies = MRG_KERNEL_UNREACHED;

	assert_int_equal(read_answer(answer, length, &copies), 0);
	assert_int_equal(copies, want);
}

static int refused(int error)
{
	const struct nlmsgerr refusal = { .error = -error };
	enum mrg_kernel_copies copies = MRG_KERNEL_UNREACHED;

	begin(NLMSG_ERROR);
	memcpy(answer + length, &refusal, sizeof(refusal));
	error = read_answer(answer, length + sizeof(refusal), &copies);
	assert_int_equal(copies, MRG_KERNEL_SILENT);
	return error;
}

static void the_attribute_is_found_behind_others(void **state)
{
	(void)state;
	begin(0x1406);
	add(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1);
	add(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1);
	expect(MRG_KERNEL_COPIES);
	begin(0x1406);
	add(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1);
	add(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 0);
	expect(MRG_KERNEL_COPIES_NOT);
}

static void an_answer_without_it_is_silent(void **state)
{
	(void)state;
	begin(0x1406);
	expect(MRG_KERNEL_SILENT);
	add(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1);
	expect(MRG_KERNEL_SILENT);
}

static void lengths_that_are_wrong_end_the_reading(void **state)
{
	enum mrg_kernel_copies copies;
	const struct nlattr none = { .nla_len = 0 }, long_one = { .nla_len = 200 };

	(void)state;
	begin(0x1406);
	add(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1);
	memcpy(answer + NLMSG_HDRLEN, &none, sizeof(none));
	expect(MRG_KERNEL_SILENT);
	memcpy(answer + NLMSG_HDRLEN, &long_one, sizeof(long_one));
	expect(MRG_KERNEL_SILENT);
	assert_int_equal(read_answer(answer, NLMSG_HDRLEN - 1, &copies), EIO);
	begin(NLMSG_ERROR);
	assert_int_equal(read_answer(answer, length + 3, &copies), EIO);
}

static void an_old_kernels_refusal_is_silence_and_others_are_errors(void **state)
{
	(void)state;
	assert_int_equal(refused(EINVAL), 0);
	assert_int_equal(refused(EOPNOTSUPP), 0);
	assert_int_equal(refused(EPERM), EPERM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_attribute_is_found_behind_others),
		cmocka_unit_test(an_answer_without_it_is_silent),
		cmocka_unit_test(lengths_that_are_wrong_end_the_reading),
		cmocka_unit_test(an_old_kernels_refusal_is_silence_and_others_are_errors),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("the kernel's answer about fork", tests, NULL, NULL);
}
