/* SPDX-License-Identifier: MIT */
/*
 * Makers of a registry's entries that tests steer: they register nothing, write
 * down what they are asked, and fail on demand.
 */
#ifndef UNIT_REGISTRY_FAKE_H
#define UNIT_REGISTRY_FAKE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "registry/registry.h"

#define FAKE_DEVICES 2
#define FAKE_KEY(device, serial) ((uint32_t)((device) << 28 | (serial)))

#define BIT(name) MRG_PROTO_BIT(MRG_PROTO_##name)

struct fake_entry {
	enum mrg_protocol protocol;
	size_t device;
	uint64_t addr, length;
	uint32_t serial;
};

/* What happened: "+v0 " made verbs on device 0, "-c " undid CUDA IPC, with "!"
 * for a failure. */
static struct fake_registry {
	char log[512];
	bool logs;
	size_t live;
	uint32_t serial;
	uint32_t add_fails; /* protocols that cannot be made, BIT() */
	uint32_t remove_fails; /* that cannot be undone */
	size_t fails_device; /* verbs fail on this device alone */
	uint32_t gpu_kind; /* what GPU memory is: BIT() of one share */
	void (*on_add)(void);
} fake;

static void fake_note(char sign, enum mrg_protocol protocol, size_t device, bool failed)
{
	static const char letters[] = ".vVHchs";
	char word[8];

	if (!fake.logs)
		return;
	snprintf(word, sizeof(word), protocol == MRG_PROTO_VERBS ? "%c%c%zu%s " : "%c%c%.0zu%s ",
		 sign, letters[protocol], device, failed ? "!" : "");
	strcat(fake.log, word);
}

static int fake_device(struct mrg_registry *registry, struct registry_device *device)
{
	size_t index = (size_t)(device - registry->devices);

	snprintf(device->name, sizeof(device->name), "fake%zu", index);
	device->guid = 0x100 + index;
	device->link_layer = 2;
	return 0;
}

static bool fake_fails(uint32_t fails, enum mrg_protocol protocol, size_t device)
{
	return fails & MRG_PROTO_BIT(protocol) &&
	       (protocol != MRG_PROTO_VERBS || device == fake.fails_device);
}

static enum mrg_protocol fake_pick(uint32_t protocols)
{
	if (protocols & GPU_SHARES && fake.gpu_kind)
		return (enum mrg_protocol)__builtin_ctz(fake.gpu_kind);
	return (enum mrg_protocol)__builtin_ctz(protocols);
}

static int fake_add(struct mrg_registry *registry, struct registry_request *request,
		    uint32_t protocols, size_t device, enum mrg_protocol *made, void **out,
		    struct mrg_error *error)
{
	enum mrg_protocol protocol = fake_pick(protocols);
	bool fails = fake_fails(fake.add_fails, protocol, device);
	struct fake_entry *entry;

	(void)registry;
	fake_note('+', protocol, device, fails);
	if (fake.on_add)
		fake.on_add();
	if (fails)
		return base_error_set(error, -ENOMEM - (int)protocol, "make", "",
				      "Protocol %s failed.", mrg_protocol_name(protocol));
	entry = malloc(sizeof(*entry));
	*entry = (struct fake_entry){ protocol, device, request->addr, request->length,
				      ++fake.serial };
	fake.live++;
	*made = protocol;
	*out = entry;
	return 0;
}

static int fake_remove(struct mrg_registry *registry, enum mrg_protocol protocol, void *at,
		       struct mrg_error *error)
{
	struct fake_entry *entry = at;
	bool fails = fake_fails(fake.remove_fails, protocol, entry->device);

	(void)registry;
	fake_note('-', protocol, entry->device, fails);
	if (fails)
		return base_error_set(error, -EBUSY, "undo", "", "Protocol %s is bound.",
				      mrg_protocol_name(protocol));
	assert_int_equal(entry->protocol, protocol);
	fake.live--;
	free(entry);
	return 0;
}

/* Two pieces, cut in the middle, for buffers of 2 bytes or more; verbs alone. */
static ssize_t fake_keys(const void *at, uint64_t addr, uint64_t length, struct mrg_seg *segs,
			 size_t cap)
{
	const struct fake_entry *entry = at;
	uint64_t half = entry->length / 2, offset = addr - entry->addr;
	uint64_t parts[2] = { 0 };
	ssize_t count = 0;

	assert_int_equal(entry->protocol, MRG_PROTO_VERBS);
	if (addr < entry->addr || !length || offset >= entry->length ||
	    length > entry->length - offset)
		return -ERANGE;
	if (offset < half)
		parts[0] = length < half - offset ? length : half - offset;
	parts[1] = length - parts[0];
	for (int i = 0; i < 2; i++)
		count += parts[i] != 0;
	if ((size_t)count > cap)
		return count;
	for (int i = 0, n = 0; i < 2; offset += parts[i++])
		if (parts[i])
			segs[n++] = (struct mrg_seg){
				.wire = entry->addr + offset,
				.length = parts[i],
				.lkey = FAKE_KEY(entry->device, entry->serial),
				.rkey = FAKE_KEY(entry->device, entry->serial) + (uint32_t)i,
			};
	return count;
}

static size_t fake_token(const void *at, const void **bytes)
{
	const struct fake_entry *entry = at;

	*bytes = mrg_protocol_name(entry->protocol);
	return strlen(*bytes);
}

static const struct registry_ops fake_ops = {
	.device = fake_device,
	.add = fake_add,
	.remove = fake_remove,
	.keys = fake_keys,
	.token = fake_token,
};

static const struct registry_ops *fake_used = &fake_ops;

static struct mrg_registry *fake_open(size_t devices)
{
	static const struct mrg_registry_device plain[FAKE_DEVICES];
	const struct mrg_registry_opts opts = {
		.size = sizeof(opts),
		.devices = plain,
		.device_count = devices,
	};
	struct mrg_registry *registry;

	memset(&fake, 0, sizeof(fake));
	assert_int_equal(registry_open_with(&registry, &opts, fake_used), 0);
	return registry;
}

static void fake_close(struct mrg_registry *registry)
{
	assert_int_equal(mrg_registry_close(registry), 0);
	assert_int_equal(fake.live, 0);
}

#endif
