/* SPDX-License-Identifier: MIT */
/*
 * Random steps on a registry, each held against a plain list of buffers that is
 * searched from end to end.  MRG_FULL=1 takes 1,000,000 steps; MRG_STEPS says
 * another number, MRG_SEED another seed.
 */
#include "registry_fake.h"

#define STEPS 60000
#define STEPS_FULL 1000000
#define MAX_BUFFERS 3000
#define MAX_HELD 16

/* A buffer as it ought to be. */
struct model {
	struct mrg_buffer *real;
	uint64_t first, last;
	uint64_t generation;
	unsigned int registrations;
	uint32_t have; /* protocols; verbs on both devices */
	unsigned int holders;
	bool left; /* nobody finds it; unregister again */
};

static struct model models[MAX_BUFFERS];
static size_t count;
static struct mrg_registry *registry;
static uint64_t random_state;
static uint64_t step;

static uint64_t pick(uint64_t limit)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (random_state >> 33) % limit;
}

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	print_message("# step %llu: %s\n", (unsigned long long)step, what);
	fail();
}

/* Ranges over a small space, so that they overlap, nest and repeat: sizes of
 * three kinds, starts on a grid or anywhere, some at either end of memory. */
static void pick_range(uint64_t *first, uint64_t *last)
{
	static const uint64_t bases[] = { 0, 0x10000, 0x7f0000000000, UINT64_MAX - 0xffff };
	uint64_t base = bases[pick(4)], at, size;

	if (count && !pick(4)) {
		*first = models[pick(count)].first;
		*last = models[pick(count)].last;
		if (*last >= *first)
			return;
	}
	at = pick(3) ? pick(64) * 1024 : pick(0x10000);
	size = pick(2) ? 1024 : pick(2) ? 1 + pick(64) : 1 + pick(0x8000);
	if (at + size > 0x10000)
		size = 0x10000 - at;
	*first = base + at;
	*last = base + at + (size - 1);
}

static struct model *exact(uint64_t first, uint64_t last)
{
	for (size_t i = 0; i < count; i++)
		if (!models[i].left && models[i].first == first && models[i].last == last)
			return &models[i];
	return NULL;
}

static uint32_t pick_protocols(void)
{
	static const uint32_t some[] = {
		BIT(VERBS),
		BIT(VERBS),
		BIT(HIP_IPC),
		BIT(CUDA_IPC),
		BIT(HOST_SHM),
		BIT(VERBS) | BIT(HIP_IPC),
		BIT(VERBS) | BIT(CUDA_IPC) | BIT(HOST_SHM),
	};

	return some[pick(7)];
}

/* GPU shares are alternatives: whichever is there will do. */
static uint32_t missing(const struct model *model, uint32_t protocols)
{
	uint32_t lacks = protocols & ~model->have;

	if (model->have & protocols & GPU_SHARES)
		lacks &= ~GPU_SHARES;
	return lacks;
}

static size_t entries(uint32_t have)
{
	return (size_t)__builtin_popcount(have) + (have & BIT(VERBS) ? FAKE_DEVICES - 1 : 0);
}

static void drop(struct model *model)
{
	*model = models[--count];
}

static void do_register(void)
{
	struct mrg_buffer_opts opts = { .size = sizeof(opts), .protocols = pick_protocols() };
	struct mrg_buffer *real = NULL;
	struct model *model;
	uint64_t first, last;
	uint32_t lacks;
	bool fails;
	int ret;

	pick_range(&first, &last);
	model = exact(first, last);
	if ((!model && count == MAX_BUFFERS) || last - first == UINT64_MAX)
		return;
	lacks = model ? missing(model, opts.protocols) : opts.protocols;
	fake.add_fails = pick(4) ? 0 : MRG_PROTO_BIT(1 + pick(MRG_PROTO_COUNT - 1));
	fake.fails_device = pick(FAKE_DEVICES);
	fails = lacks & fake.add_fails;
	ret = mrg_buffer_register(registry, first, last - first + 1, &opts, &real);
	fake.add_fails = 0;
	must((ret != 0) == fails, "registration ended otherwise");
	must(!real == fails, "a handle came with a failure, or none with success");
	if (fails)
		return;
	if (!model) {
		model = &models[count++];
		*model = (struct model){ .real = real,
					 .first = first,
					 .last = last,
					 .generation = mrg_buffer_generation(real) };
	}
	must(real == model->real, "the same range got another handle");
	model->registrations++;
	model->have |= lacks;
	must(mrg_buffer_protocols(real) == model->have, "other entries than asked for");
}

static void do_unregister(void)
{
	struct model *model;
	uint32_t stays;
	int ret;

	if (!count)
		return;
	model = &models[pick(count)];
	fake.remove_fails = pick(4) ? 0 : MRG_PROTO_BIT(1 + pick(MRG_PROTO_COUNT - 1));
	fake.fails_device = pick(FAKE_DEVICES);
	stays = model->have & fake.remove_fails;
	ret = mrg_buffer_unregister(model->real, 0);
	fake.remove_fails = 0;
	if (!model->left && model->registrations > 1) {
		must(!ret, "a registration of several could not be taken back");
		model->registrations--;
	} else if (model->holders) {
		must(ret == -EBUSY, "a held buffer was unregistered");
	} else if (ret) {
		must(stays && ret == -EBUSY, "unregistering failed, and nothing was bound");
		model->left = true;
		/* Of verbs one device is left, which the other cannot tell. */
		model->have = stays;
	} else {
		/* What is left of verbs may be the device that does not fail. */
		must(!stays || (model->left && stays == BIT(VERBS)),
		     "unregistering succeeded with an entry that was bound");
		drop(model);
	}
}

/* The list's answer. */
static const struct model *best(uint32_t need, uint64_t first, uint64_t last, bool partly,
				bool *others)
{
	const struct model *found = NULL;

	*others = false;
	for (size_t i = 0; i < count; i++) {
		const struct model *at = &models[i];
		uint64_t reach, found_reach;

		if (at->left || at->first > first || at->last < (partly ? first : last))
			continue;
		if (!(at->have & need)) {
			*others = true;
			continue;
		}
		if (!found) {
			found = at;
			continue;
		}
		reach = at->last < last ? at->last : last;
		found_reach = found->last < last ? found->last : last;
		if (reach != found_reach) {
			if (reach > found_reach)
				found = at;
		} else if (at->last - at->first != found->last - found->first) {
			if (at->last - at->first < found->last - found->first)
				found = at;
		} else if (at->first != found->first ? at->first > found->first :
						       at->generation > found->generation) {
			found = at;
		}
	}
	return found;
}

static void pick_question(uint64_t *first, uint64_t *last)
{
	uint64_t a, b;

	pick_range(&a, &b);
	*first = a + pick(3) * (pick(2) ? 1 : (b - a) / 3);
	if (*first < a || *first > b)
		*first = a;
	*last = pick(3) ? *first + pick(b - *first + 1 ? b - *first + 1 : 1) : b;
	if (*last - *first == UINT64_MAX)
		*last = *first;
}

static void do_find(void)
{
	enum mrg_protocol protocol = (enum mrg_protocol)(1 + pick(MRG_PROTO_COUNT - 1));
	bool partly = pick(2), others;
	const struct model *want;
	struct mrg_buffer *real = NULL;
	uint64_t first, last, covered = 0, end;
	int ret;

	pick_question(&first, &last);
	want = best(MRG_PROTO_BIT(protocol), first, last, partly, &others);
	ret = mrg_registry_find(registry, protocol,
				protocol == MRG_PROTO_VERBS ? pick(FAKE_DEVICES) : 0, first,
				last - first + 1, partly ? &covered : NULL, &real);
	if (!want) {
		must(ret == (others ? -ENOPROTOOPT : -ERANGE), "found what is not there");
		return;
	}
	must(!ret, "did not find what is there");
	must(real == want->real, "found another buffer than the best");
	end = want->last < last ? want->last : last;
	must(!partly || covered == end - first + 1, "covers another part");
	mrg_buffer_put(real);
}

static struct model *pick_live(void)
{
	struct model *model = count ? &models[pick(count)] : NULL;

	return model && !model->left ? model : NULL;
}

static void do_hold(void)
{
	struct model *model = pick_live();

	if (!model)
		return;
	if (model->holders && pick(2)) {
		mrg_buffer_put(model->real);
		model->holders--;
	} else if (model->holders < MAX_HELD) {
		must(!mrg_buffer_hold(model->real), "could not hold a live buffer");
		model->holders++;
	}
}

/* Through bytes, as a peer would get and return it. */
static void do_describe(void)
{
	struct model *model = pick_live();
	struct mrg_descriptor desc, back;
	struct mrg_buffer *held;
	ssize_t length;
	void *bytes;

	if (!model)
		return;
	must(!mrg_buffer_describe(model->real, 0, &desc), "a buffer cannot be described");
	length = mrg_descriptor_encode(&desc, &bytes);
	must(length > 0, "a descriptor cannot be written");
	must(!mrg_descriptor_decode(bytes, (size_t)length, &back, NULL), "nor read");
	must(mrg_descriptor_protocols(&back) == model->have, "a descriptor tells of others");
	must(!mrg_registry_verify(registry, &back, &held), "a fresh descriptor is stale");
	must(held == model->real, "a descriptor leads to another buffer");
	mrg_buffer_put(held);
	back.generation--;
	must(mrg_registry_verify(registry, &back, NULL) == -ESTALE || !back.generation,
	     "an old generation is taken");
	mrg_descriptor_release(&desc);
	mrg_descriptor_release(&back);
	free(bytes);
}

static void check_totals(void)
{
	struct mrg_registry_stats stats;
	size_t live = 0, registrations = 0, made = 0, left = 0;

	for (size_t i = 0; i < count; i++) {
		live += !models[i].left;
		left += models[i].left;
		registrations += models[i].left ? 0 : models[i].registrations;
		made += models[i].left ? 0 : entries(models[i].have);
	}
	mrg_registry_stats(registry, &stats);
	must(stats.buffers == live, "another number of buffers");
	must(stats.registrations == registrations, "another number of registrations");
	must(stats.entries == made, "another number of entries");
	/* One entry each: an injected failure names one protocol, and of verbs
	 * one device. */
	must(stats.leftover == left, "another number of leftovers");
	must(fake.live == made + left, "entries leaked, or were undone twice");
}

static void one_step(void)
{
	/* Phases in which buffers become many, and few again. */
	uint64_t grows = step / 15000 % 2 ? 8 : 42, what = pick(100);

	if (what < grows)
		do_register();
	else if (what < 50)
		do_unregister();
	else if (what < 90)
		do_find();
	else if (what < 97)
		do_hold();
	else
		do_describe();
	if (step % 500 == 0)
		check_totals();
}

static void finish(void)
{
	while (count) {
		struct model *model = &models[0];

		for (; model->holders; model->holders--)
			mrg_buffer_put(model->real);
		if (!model->left)
			while (model->registrations-- > 1)
				must(!mrg_buffer_unregister(model->real, 0), "could not end");
		must(!mrg_buffer_unregister(model->real, 0), "could not end");
		drop(model);
	}
	fake_close(registry);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static void a_random_history_ends_as_in_a_plain_list(void **state)
{
	uint64_t steps = number("MRG_STEPS", getenv("MRG_FULL") ? STEPS_FULL : STEPS);

	(void)state;
	random_state = number("MRG_SEED", 20261129);
	registry = fake_open(FAKE_DEVICES);
	for (step = 1; step <= steps; step++)
		one_step();
	print_message("# %llu steps, %zu buffers at the end, no difference\n",
		      (unsigned long long)steps, count);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_random_history_ends_as_in_a_plain_list),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("registry against a list", tests, NULL, NULL);
}
