/* SPDX-License-Identifier: MIT */
/* What a failed registration asks of GPU drivers: those that are loaded, and
 * nothing that would initialise one. */
#define DOUBLE_CUDA
#include "gpu/double/unit.h"

#include "explain/refusal.h"

static struct mrg_gpu *gpu;
static struct explain_pin_facts facts;
static struct explain_refusal words;

static int setup(void **state)
{
	(void)state;
	double_reset();
	unit_loaded = true;
	unit_opens = 0;
	gpu = unit_gpu(0);
	memset(&facts, 0, sizeof(facts));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mrg_gpu_close(gpu);
	return 0;
}

static void ask(uint64_t addr, uint64_t length)
{
	facts = (struct explain_pin_facts){
		.addr = addr, .length = length, .at = addr, .fault = PIN_UNMAPPED
	};
	explain_pin_ask_gpu(gpu, &facts);
	explain_refusal_pin(&facts, &words);
}

static void a_driver_that_is_not_loaded_is_not_asked(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 1 << 20, 0);

	(void)state;
	unit_loaded = false;
	ask(addr, 4096);
	assert_int_equal(unit_opens, 0);
	assert_int_equal(double_gpu.calls, 0);
	assert_false(explain_pin_on_gpu(&facts));
	assert_non_null(strstr(words.text, "it was freed, or it is a device pointer"));
}

static void a_driver_that_is_not_initialised_stays_so(void **state)
{
	(void)state;
	double_gpu.need_init = true;
	ask(0x700000000000, 4096);
	assert_false(double_gpu.initialised);
	assert_false(explain_pin_on_gpu(&facts));
}

static void cudaMalloc_memory_is_known_without_a_mapping(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 1 << 20, 0);

	(void)state;
	ask(addr + 512, 4096);
	assert_int_equal(facts.kind, MRG_MEM_CUDA);
	assert_false(facts.unflagged);
	assert_non_null(strstr(words.text, "is CUDA memory on a GPU"));
	ask(addr, 2 << 20);
	assert_int_equal(facts.end, addr + (1 << 20));
	assert_non_null(strstr(words.text, "inside the range"));
}

static void vmm_memory_is_told_with_its_chunks_and_its_flag(void **state)
{
	const struct unit_chunk flagged[] = {
		{ .size = 20 * MIB, .rdma = true },
		{ .size = 20 * MIB, .rdma = true },
	};
	const struct unit_chunk mixed[] = {
		{ .size = 20 * MIB, .rdma = true },
		{ .size = 20 * MIB },
	};
	struct unit_vmm vmm = unit_vmm(flagged, 2);

	(void)state;
	ask(vmm.addr, vmm.size);
	assert_int_equal(facts.kind, MRG_MEM_CUDA_VMM);
	assert_int_equal(facts.chunks, 2);
	assert_false(facts.unflagged);
	assert_non_null(strstr(words.text, "CUDA VMM memory in 2 chunks"));
	unit_vmm_free(vmm);
	vmm = unit_vmm(mixed, 2);
	ask(vmm.addr, vmm.size);
	assert_true(facts.unflagged);
	assert_non_null(strstr(words.text, "without the RDMA flag"));
	assert_non_null(strstr(words.remedy, "cannot be fixed afterwards"));
	unit_vmm_free(vmm);
}

static void a_pool_is_told_apart_from_vmm(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_POOL, 1 << 20, 0);

	(void)state;
	ask(addr, 4096);
	assert_int_equal(facts.kind, MRG_MEM_CUDA_POOL);
	assert_true(facts.unflagged);
	assert_non_null(strstr(words.remedy, "cudaMallocAsync"));
}

static void host_memory_is_left_to_the_kernel(void **state)
{
	(void)state;
	ask((uint64_t)(uintptr_t)&facts, sizeof(facts));
	assert_false(explain_pin_on_gpu(&facts));
	explain_pin_ask_drivers(&facts);
	assert_false(explain_pin_on_gpu(&facts));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_driver_that_is_not_loaded_is_not_asked),
		TEST(a_driver_that_is_not_initialised_stays_so),
		TEST(cudaMalloc_memory_is_known_without_a_mapping),
		TEST(vmm_memory_is_told_with_its_chunks_and_its_flag),
		TEST(a_pool_is_told_apart_from_vmm),
		TEST(host_memory_is_left_to_the_kernel),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("what drivers tell of a range", tests, NULL, NULL);
}
