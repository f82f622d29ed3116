/* SPDX-License-Identifier: MIT */
/* What a device answers about DMA-BUFs decides between the causes of one errno.
 * The program's own verbs come before those of the library. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include <mrguard/explain.h>

static struct ibv_device device = { .name = "fake0" };
static struct ibv_context context = { .device = &device };
static struct ibv_pd pd = { .context = &context };
static int answer; /* to fd -1 */
static int asked, held;

struct ibv_device **ibv_get_device_list(int *count)
{
	static struct ibv_device *list[] = { &device, NULL };

	if (count)
		*count = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	(void)list;
}

const char *ibv_get_device_name(struct ibv_device *from)
{
	return from->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *from)
{
	assert_ptr_equal(from, &device);
	held++;
	return &context;
}

int ibv_close_device(struct ibv_context *from)
{
	(void)from;
	held--;
	return 0;
}

int ibv_query_device(struct ibv_context *from, struct ibv_device_attr *attr)
{
	(void)from;
	memset(attr, 0, sizeof(*attr));
	attr->max_mr_size = 1ULL << 40;
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *from)
{
	(void)from;
	held++;
	return &pd;
}

int ibv_dealloc_pd(struct ibv_pd *from)
{
	(void)from;
	held--;
	return 0;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *from, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	(void)offset, (void)length, (void)iova, (void)access;
	assert_ptr_equal(from, &pd);
	assert_int_equal(fd, -1);
	asked++;
	errno = answer;
	return NULL;
}

static struct mrg_explanation explain(enum mrg_call call, int error)
{
	const struct mrg_explain_opts opts = {
		.size = sizeof(opts), .call = call, .error = error, .device = "fake0"
	};
	struct mrg_explanation explanation;

	asked = 0;
	assert_int_equal(mrg_explain(&opts, &explanation), 0);
	assert_int_equal(held, 0);
	return explanation;
}

static enum mrg_likelihood of(const struct mrg_explanation *explanation, enum mrg_cause cause)
{
	for (int i = 0; i < MRG_CAUSES; i++)
		if (explanation->findings[i].cause == cause)
			return explanation->findings[i].likelihood;
	return MRG_IS_NOT;
}

static void a_device_that_takes_no_dmabufs_is_the_cause(void **state)
{
	static const int errors[] = { EOPNOTSUPP, EPROTONOSUPPORT };
	struct mrg_explanation out;

	(void)state;
	for (int i = 0; i < 2; i++) {
		answer = errors[i];
		out = explain(MRG_CALL_REG_DMABUF_MR, errors[i]);
		assert_int_equal(of(&out, MRG_CAUSE_DMABUF_SUPPORT), MRG_IS);
		assert_int_equal(of(&out, MRG_CAUSE_EXPORTER), MRG_IS_NOT);
		assert_non_null(strstr(out.summary, "fake0 do not take DMA-BUFs"));
		assert_non_null(strstr(out.summary, strerror(errors[i])));
	}
}

static void where_the_device_takes_them_the_exporter_is_left(void **state)
{
	struct mrg_explanation out;

	(void)state;
	answer = EBADF;
	out = explain(MRG_CALL_REG_DMABUF_MR, EOPNOTSUPP);
	assert_int_equal(of(&out, MRG_CAUSE_DMABUF_SUPPORT), MRG_IS_NOT);
	assert_int_equal(of(&out, MRG_CAUSE_EXPORTER), MRG_MAY_BE);
	assert_non_null(strstr(out.findings[0].text, "fake0 takes DMA-BUFs"));
}

static void a_device_is_asked_about_dmabufs_for_their_call_alone(void **state)
{
	(void)state;
	explain(MRG_CALL_REG_MR, ENOMEM);
	assert_int_equal(asked, 0);
	explain(MRG_CALL_REG_DMABUF_MR, ENOMEM);
	assert_int_equal(asked, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_that_takes_no_dmabufs_is_the_cause),
		cmocka_unit_test(where_the_device_takes_them_the_exporter_is_left),
		cmocka_unit_test(a_device_is_asked_about_dmabufs_for_their_call_alone),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("what a device answers", tests, NULL, NULL);
}
