/* SPDX-License-Identifier: MIT */
/* A look must not change data: where mappings bounce, none is made. */
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <sys/ioctl.h>

#include "ioctl_kit.h"

#define SIZE (64 * KIB)
#define HOLD "/sys/module/edu_bind/parameters/hold"

static int buffer = -1; /* of ordinary pages */
static unsigned char *memory;

/* Debian has the heap from 6.12 on. */
static int from_heap(void)
{
	struct dma_heap_allocation_data arg = { .len = SIZE, .fd_flags = O_RDWR | O_CLOEXEC };
	int heap = open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC), ret;

	if (heap < 0)
		return -errno;
	ret = ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &arg);
	close(heap);
	return ret ? -errno : (int)arg.fd;
}

static int hold(int fd)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", fd);
	return write_file(HOLD, text);
}

/* The control: what somebody writes while such a mapping is there is lost. */
static void undoing_a_mapping_that_bounces_undoes_writes(void **state)
{
	(void)state;
	memset(memory, 1, SIZE);
	assert_int_equal(hold(buffer), 0);
	memset(memory, 2, SIZE);
	assert_int_equal(hold(-1), 0);
	assert_int_equal(memory[0], 1);
	assert_int_equal(memory[SIZE - 1], 1);
}

static void a_layout_is_refused(void **state)
{
	struct mrg_ioc_run runs[8];
	struct mrg_ioc_layout arg = layout_of(buffer, runs, 8);

	(void)state;
	memset(memory, 3, SIZE);
	assert_int_equal(call(MRG_IOC_LAYOUT, &arg), -EADDRNOTAVAIL);
	assert_int_equal(memory[0], 3);
}

static void so_is_one_of_memory_that_would_not_bounce(void **state)
{
	struct mrg_ioc_run runs[8];
	int device = make_pages(4 * GIB), maps = simgpu_now().maps;
	struct mrg_ioc_layout arg = layout_of(device, runs, 8);
	struct mrg_ioc_blocks blocks = blocks_of(NULL, 0, 0, 0);

	(void)state;
	assert_int_equal(call(MRG_IOC_LAYOUT, &arg), -EADDRNOTAVAIL);
	blocks.flags = MRG_BLOCKS_DMABUF;
	blocks.dmabuf_fd = device;
	blocks.importer = importer;
	assert_int_equal(call(MRG_IOC_BLOCKS, &blocks), -EADDRNOTAVAIL);
	assert_int_equal(simgpu_now().maps, maps);
	close(device);
}

static int set_up(void **state)
{
	(void)state;
	if (kit_open("mrguard mrguard_walk edu_bind simgpu", "edu_bind"))
		return -1;
	buffer = from_heap();
	if (buffer < 0)
		return 0;
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, buffer, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	if (buffer >= 0) {
		munmap(memory, SIZE);
		close(buffer);
	}
	return kit_close("mrguard_walk mrguard simgpu edu_bind");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(so_is_one_of_memory_that_would_not_bounce),
	};
	const struct CMUnitTest with_heap[] = {
		cmocka_unit_test(undoing_a_mapping_that_bounces_undoes_writes),
		cmocka_unit_test(a_layout_is_refused),
		cmocka_unit_test(so_is_one_of_memory_that_would_not_bounce),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (!access("/dev/dma_heap/system", F_OK))
		return cmocka_run_group_tests(with_heap, set_up, tear_down);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
