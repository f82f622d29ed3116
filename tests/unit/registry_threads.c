/* SPDX-License-Identifier: MIT */
/*
 * Threads that look up while others register and unregister.  What is found
 * holds what was asked for and has its entry until it is put; what is peeked at
 * stays until the reader leaves.  Entries are filled with a pattern when they
 * are undone, so that use after that shows.
 */
#include <pthread.h>
#include <time.h>

#include "registry_fake.h"

#define READERS 3
#define WRITERS 2
#define RANGES 64
#define BASE 0x100000ull
#define SIZE 0x1000ull
#define SECONDS 1
#define SECONDS_FULL 60

static struct mrg_registry *registry;
static atomic_bool ends;
static atomic_ulong found, missed, made, faults;
static atomic_long live;

static int add(struct mrg_registry *in, struct registry_request *request, uint32_t protocols,
	       size_t device, enum mrg_protocol *which, void **entry, struct mrg_error *error)
{
	struct fake_entry *at = malloc(sizeof(*at));

	(void)in, (void)protocols, (void)error;
	*at = (struct fake_entry){ MRG_PROTO_VERBS, device, request->addr, request->length, 1 };
	atomic_fetch_add(&live, 1);
	*which = MRG_PROTO_VERBS;
	*entry = at;
	return 0;
}

static int undo(struct mrg_registry *in, enum mrg_protocol protocol, void *entry,
		struct mrg_error *error)
{
	(void)in, (void)protocol, (void)error;
	memset(entry, 0xdb, sizeof(struct fake_entry));
	free(entry);
	atomic_fetch_sub(&live, 1);
	return 0;
}

static const struct registry_ops ops = {
	.device = fake_device,
	.add = add,
	.remove = undo,
	.keys = fake_keys,
};

static uint64_t next(uint64_t *x)
{
	*x = *x * 6364136223846793005ull + 1442695040888963407ull;
	return *x >> 33;
}

/* Ranges of both writers overlap, and nest; readers look past them too. */
static void pick(uint64_t *x, uint64_t ranges, uint64_t *addr, uint64_t *length)
{
	uint64_t n = next(x) % ranges;

	*addr = BASE + n * SIZE / 2;
	*length = SIZE << n % 4;
}

static void *write_all(void *arg)
{
	struct mrg_buffer *held[RANGES] = { NULL };
	uint64_t x = (uintptr_t)arg, addr, length;

	while (!atomic_load(&ends)) {
		size_t n = next(&x) % RANGES;

		if (held[n]) {
			if (!mrg_buffer_unregister(held[n], next(&x) % 2 ? 1000 : 0))
				held[n] = NULL;
			continue;
		}
		pick(&x, RANGES, &addr, &length);
		if (!mrg_buffer_register(registry, addr, length, NULL, &held[n]))
			atomic_fetch_add(&made, 1);
	}
	for (size_t n = 0; n < RANGES; n++)
		if (held[n] && mrg_buffer_unregister(held[n], UINT32_MAX))
			atomic_fetch_add(&faults, 1);
	return NULL;
}

static bool is_sound(const struct mrg_buffer *buffer, uint64_t addr, uint64_t length)
{
	struct mrg_seg segs[2];
	uint64_t sum = 0;
	ssize_t count;

	if (mrg_buffer_addr(buffer) > addr ||
	    mrg_buffer_length(buffer) < addr - mrg_buffer_addr(buffer) + length)
		return false;
	count = mrg_buffer_keys(buffer, 0, addr, length, segs, 2);
	for (ssize_t i = 0; i < count; i++)
		sum += segs[i].length;
	return sum == length && segs[0].wire == addr && segs[0].lkey == FAKE_KEY(0, 1);
}

static int look(uint64_t *x, uint64_t addr, uint64_t length)
{
	struct mrg_buffer *buffer;
	bool sound = true;
	int ret;

	if (next(x) % 2) {
		ret = mrg_registry_find(registry, MRG_PROTO_VERBS, 0, addr, length, NULL, &buffer);
		if (!ret) {
			sound = is_sound(buffer, addr, length);
			mrg_buffer_put(buffer);
		}
	} else {
		mrg_registry_enter();
		ret = mrg_registry_peek(registry, MRG_PROTO_VERBS, 0, addr, length, NULL, &buffer);
		if (!ret)
			sound = is_sound(buffer, addr, length);
		mrg_registry_leave();
	}
	if (!sound)
		atomic_fetch_add(&faults, 1);
	return ret;
}

static void *read_all(void *arg)
{
	uint64_t x = (uintptr_t)arg, addr, length;

	while (!atomic_load(&ends)) {
		pick(&x, 2 * RANGES, &addr, &length);
		if (look(&x, addr + next(&x) % 256, 1 + next(&x) % (SIZE / 2)))
			atomic_fetch_add(&missed, 1);
		else
			atomic_fetch_add(&found, 1);
	}
	return NULL;
}

static void what_is_found_stays_until_it_is_let_go(void **state)
{
	const struct timespec time = { getenv("MRG_FULL") ? SECONDS_FULL : SECONDS, 0 };
	pthread_t threads[READERS + WRITERS];

	(void)state;
	fake_used = &ops;
	registry = fake_open(1);
	for (size_t i = 0; i < READERS + WRITERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
						i < WRITERS ? write_all : read_all,
						(void *)(i + 1)),
				 0);
	nanosleep(&time, NULL);
	atomic_store(&ends, true);
	for (size_t i = 0; i < READERS + WRITERS; i++)
		pthread_join(threads[i], NULL);
	print_message("# %lu registrations, %lu look-ups found a buffer and %lu none\n",
		      atomic_load(&made), atomic_load(&found), atomic_load(&missed));
	assert_int_equal(atomic_load(&faults), 0);
	assert_true(atomic_load(&found) > 0 && atomic_load(&missed) > 0);
	fake_close(registry);
	assert_int_equal(atomic_load(&live), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_found_stays_until_it_is_let_go),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("registry and threads", tests, NULL, NULL);
}
