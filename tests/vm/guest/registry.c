/* SPDX-License-Identifier: MIT */
/* Registry, GID and path on real devices: two of soft RoCE over a veth pair. */
#include <mrguard/mrguard.h>

#include "transfer_kit.h"

#define BYTES (4u << 20)
#define DEVICES 2

static struct ibv_context *verbs[DEVICES];
static struct mrg_registry_device devices[DEVICES];
static struct mrg_gid_facts *facts;
static const char *const names[DEVICES] = { "rxe_a", "rxe_b" };

static int choose(const char *device, const char *peer, struct mrg_gid_choice *choice)
{
	struct mrg_error error;
	uint8_t gid[1][16];
	int ret;

	mrg_gid_parse(peer, gid[0]);
	ret = mrg_gid_choose(facts, device, 1, gid, 1, NULL, choice, &error);
	if (ret)
		printf("# %s\n", error.cause);
	return ret;
}

/* What the kernel has at the index that was chosen. */
static bool is_in_table(struct ibv_context *context, const struct mrg_gid_entry *entry)
{
	union ibv_gid gid;

	return !ibv_query_gid(context, 1, entry->index, &gid) &&
	       !memcmp(gid.raw, entry->gid, sizeof(gid.raw));
}

static void open_devices(void)
{
	struct mrg_gid_choice choice;

	if (mrg_gid_open(&facts, NULL))
		bail("no facts");
	for (int i = 0; i < DEVICES; i++) {
		verbs[i] = rc_device_open(names[i]);
		devices[i].pd = verbs[i] ? ibv_alloc_pd(verbs[i]) : NULL;
		if (!devices[i].pd)
			bail("%s: %s", names[i], strerror(errno));
		ok(!choose(names[i], i ? "192.0.2.1" : "192.0.2.2", &choice) &&
			   choice.entry.type == MRG_GID_ROCE_V2 &&
			   is_in_table(verbs[i], &choice.entry),
		   "the GID that is chosen is RoCEv2, and at its index");
		memcpy(devices[i].gid, choice.entry.gid, 16);
		devices[i].gid_type = choice.entry.type;
	}
}

static void close_devices(void)
{
	for (int i = 0; i < DEVICES; i++)
		if (ibv_dealloc_pd(devices[i].pd) || ibv_close_device(verbs[i]))
			bail("%s is in use", names[i]);
	mrg_gid_close(facts);
}

static void check_descriptor(struct mrg_registry *registry, struct mrg_buffer *buffer,
			     uint64_t addr)
{
	const struct mrg_path_opts opts = { .size = sizeof(opts), .bytes = BYTES };
	struct mrg_seg local, remote;
	struct mrg_descriptor desc;
	struct mrg_path path;

	if (mrg_buffer_describe(buffer, 0, &desc))
		bail("no descriptor");
	ok(desc.device_count == DEVICES && !strcmp(desc.devices[1].name, "rxe_b") &&
		   desc.devices[0].guid == ibv_get_device_guid(verbs[0]->device) &&
		   desc.devices[0].link_layer == IBV_LINK_LAYER_ETHERNET &&
		   !memcmp(desc.devices[1].gid, devices[1].gid, 16),
	   "the descriptor names both devices as they are");
	ok(mrg_buffer_keys(buffer, 1, addr + 5, 100, &local, 1) == 1 &&
		   mrg_descriptor_keys(&desc, 1, addr + 5, 100, &remote, 1) == 1 &&
		   local.rkey == remote.rkey && local.wire == remote.wire &&
		   remote.wire == addr + 5,
	   "both sides' keys for a range are one device's");
	ok(!mrg_path_choose(&desc, &desc, &opts, &path, NULL) && path.protocol == MRG_PROTO_VERBS &&
		   path.rail_count == DEVICES,
	   "a large transfer takes both devices");
	ok(!mrg_registry_verify(registry, &desc, NULL), "the descriptor is the present one");
	mrg_descriptor_release(&desc);
}

static void check_registry(void)
{
	struct mrg_registry_opts opts = { .size = sizeof(opts),
					  .devices = devices,
					  .device_count = DEVICES };
	void *memory =
		mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mrg_registry *registry;
	struct mrg_buffer *buffer;

	if (mrg_open(&opts.ctx, NULL, NULL) || mrg_registry_open(&registry, &opts))
		bail("no registry");
	ok(!mrg_buffer_register(registry, (uintptr_t)memory, BYTES, NULL, &buffer),
	   "memory is registered on both devices");
	check_descriptor(registry, buffer, (uintptr_t)memory);
	ok(!mrg_buffer_unregister(buffer, 0) && !mrg_registry_close(registry),
	   "and is not any more");
	mrg_close(opts.ctx);
	munmap(memory, BYTES);
}

static bool comes_back(const struct mrg_gid_entry *before)
{
	struct mrg_gid_entry now;

	for (int i = 0; i < 100; i++) {
		if (!mrg_gid_find(facts, "rxe_a", 1, before->gid, before->type, &now))
			return is_in_table(verbs[0], &now);
		usleep(100000);
	}
	return false;
}

static void check_flap(void)
{
	struct mrg_gid_choice choice;

	if (choose("rxe_a", "192.0.2.9", &choice))
		bail("no route to begin with");
	run_command("ip addr del 192.0.2.1/24 dev rxa");
	ok(choose("rxe_a", "192.0.2.9", &choice) == -ENETUNREACH,
	   "without its address the device reaches nobody");
	run_command("ip addr add 198.51.100.1/24 dev rxa; ip addr add 192.0.2.1/24 dev rxa");
	mrg_gid_parse("192.0.2.1", choice.entry.gid);
	choice.entry.type = MRG_GID_ROCE_V2;
	ok(comes_back(&choice.entry), "a GID that moved is found at its new index");
}

static void check_vrf(void)
{
	struct mrg_gid_choice choice;

	if (run_command("modprobe vrf >&2 && ip link add vrf1 type vrf table 200 && "
			"ip link set vrf1 up && ip link set rxa master vrf1"))
		bail("no VRF");
	ok(!choose("rxe_a", "192.0.2.9", &choice) && choice.table == 200,
	   "in a VRF its table is the one that counts");
	ok(choose("rxe_b", "198.51.100.9", &choice) == -ENETUNREACH,
	   "and a device outside it does not see that table");
	run_command("ip link set rxa nomaster; ip link del vrf1; rmmod vrf >&2");
}

int main(void)
{
	kit_up();
	open_devices();
	check_registry();
	check_flap();
	check_vrf();
	close_devices();
	kit_down();
	tap_end();
	return 0;
}
