/* SPDX-License-Identifier: MIT */
/* The handle: options, and what the device allows. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/opts.h"
#include "transfer/transfer.h"
#include "transfer/lane.h"

#define LANES 1
#define DEPTH 128
#define DEPTH_MAX 32768
#define SLICE (1ULL << 20)
#define SLICE_MAX (1ULL << 30)
#define MAX_OPS 65536
#define HANDSHAKE_MS 5000
#define REMAKE_MS 5000
#define GRACE_MS 20
#define TRIES 4
#define TIMEOUT 14
#define TIMEOUT_MAX 31
#define PACKET_TRIES 7
#define PACKET_TRIES_MAX 8 /* the field has 3 bits, and counts repetitions */
#define SGES 16 /* ranges of a work request, at most */
#define INLINE 128 /* bytes; a device may take less */
#define READS_MAX 255 /* the field's size */
#define GID_INDEX_MAX 255

int mrg_transfer_last_error(const struct mrg_transfer *transfer, struct mrg_error *error)
{
	return mrg_private_error_read(transfer ? transfer->error_owner : 0, error);
}

/* ---- options ---- */

/* MRGUARD_GID_INDEX, as for registration: the user's word comes first. */
static int read_env(struct mrg_transfer_opts *opts)
{
	const char *text = secure_getenv("MRGUARD_GID_INDEX");
	unsigned long index;
	char *end;

	/* By device ("mlx5_0=3"): the choice of GIDs reads it itself. */
	if (!text || !*text || strchr(text, '='))
		return 0;
	index = strtoul(text, &end, 10);
	if (*end || index > GID_INDEX_MAX)
		return base_fail(0, -EINVAL, "read MRGUARD_GID_INDEX",
				 "Use an index of the device's GID table, 0 to 255.",
				 "MRGUARD_GID_INDEX is \"%.40s\", which is not an index.", text);
	opts->gid_index = (uint32_t)index;
	opts->flags |= MRG_TRANSFER_GID_INDEX;
	return 0;
}

static int check_opts(const struct mrg_transfer_opts *o)
{
	const struct {
		const char *name;
		uint64_t value, limit;
	} rules[] = {
		{ "port", o->port, UINT8_MAX },
		{ "flags", o->flags, MRG_TRANSFER_GID_INDEX },
		{ "gid_index", o->gid_index,
		  o->flags & MRG_TRANSFER_GID_INDEX ? GID_INDEX_MAX : 0 },
		{ "lanes", o->lanes, LANES_MAX },
		{ "depth", o->depth, DEPTH_MAX },
		{ "slice", o->slice, SLICE_MAX },
		{ "timeout", o->timeout, TIMEOUT_MAX },
		{ "packet_tries", o->packet_tries, PACKET_TRIES_MAX },
		{ "traffic_class", o->traffic_class, UINT8_MAX },
		{ "service_level", o->service_level, 15 },
	};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].value > rules[i].limit)
			return base_fail(0, -EINVAL, "check options",
					 "Use 0 for the default, or a value in the limit.",
					 "The option %s is %llu, and at most %llu is possible.",
					 rules[i].name, (unsigned long long)rules[i].value,
					 (unsigned long long)rules[i].limit);
	return 0;
}

static void set_default(uint32_t *value, uint32_t otherwise)
{
	if (!*value)
		*value = otherwise;
}

static int take_opts(struct mrg_transfer_opts *o, const struct mrg_transfer_opts *given)
{
	int ret;

	memset(o, 0, sizeof(*o));
	if (base_opts_copy(o, sizeof(*o), given))
		return base_fail(0, -EINVAL, "check options",
				 "Zero the structure and set its size.",
				 "The options have a field that this library does not know.");
	ret = check_opts(o);
	if (!ret)
		ret = read_env(o);
	set_default(&o->port, 1);
	set_default(&o->lanes, LANES);
	set_default(&o->depth, DEPTH);
	o->slice = o->slice ? o->slice : SLICE;
	set_default(&o->max_ops, MAX_OPS);
	set_default(&o->handshake_ms, HANDSHAKE_MS);
	set_default(&o->remake_ms, REMAKE_MS);
	set_default(&o->grace_ms, GRACE_MS);
	set_default(&o->tries, TRIES);
	set_default(&o->timeout, TIMEOUT);
	set_default(&o->packet_tries, PACKET_TRIES);
	return ret;
}

static uint32_t least(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

/* Options beyond the device's limits are lowered to them. */
static int find_limits(struct mrg_transfer *transfer)
{
	const struct mrg_transfer_opts *o = &transfer->opts;
	struct transfer_limits *limits = &transfer->limits;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	int err = transfer->ops->query_device(transfer->verbs, &attr);

	if (!err)
		err = transfer->ops->query_port(transfer->verbs, (uint8_t)o->port, &port);
	if (err)
		return base_fail(0, -err, "query device", "Check the port's number and the device.",
				 "Port %u of the device cannot be queried: %s.", o->port,
				 strerror(err));
	limits->lanes = o->lanes;
	limits->depth = least(o->depth, (uint64_t)attr.max_qp_wr);
	limits->max_cqe = (uint32_t)attr.max_cqe;
	if ((uint64_t)limits->depth * limits->lanes > limits->max_cqe)
		limits->depth = limits->max_cqe / limits->lanes;
	limits->sges = least(SGES, (uint64_t)attr.max_sge);
	if (attr.max_sge_rd && (uint32_t)attr.max_sge_rd < limits->sges)
		limits->sges = (uint32_t)attr.max_sge_rd;
	limits->inline_bytes = INLINE;
	limits->reads_in = least(READS_MAX, (uint64_t)attr.max_qp_rd_atom);
	limits->reads_out = least(READS_MAX, (uint64_t)attr.max_qp_init_rd_atom);
	limits->slice = o->slice;
	if (port.max_msg_sz && port.max_msg_sz < limits->slice)
		limits->slice = port.max_msg_sz;
	if (!limits->depth || !limits->sges)
		return base_fail(0, -EOPNOTSUPP, "query device", "Use another device.",
				 "The device has no room for work requests.");
	return 0;
}

static void name_self(struct mrg_transfer *transfer)
{
	const struct ibv_device *device = transfer->verbs->device;
	char host[65] = "";

	gethostname(host, sizeof(host) - 1);
	snprintf(transfer->name, sizeof(transfer->name), "%.30s on %.28s",
		 device ? device->name : "?", host);
}

int transfer_open(struct mrg_transfer **out, struct ibv_pd *pd,
		  const struct mrg_transfer_opts *opts, const struct transfer_ops *ops)
{
	struct mrg_transfer *transfer = calloc(1, sizeof(*transfer));
	int ret;

	if (!transfer)
		return base_fail(0, -ENOMEM, "open", "Free memory on this host.",
				 "No memory is left for a transfer handle.");
	transfer->ops = ops;
	transfer->pd = pd;
	transfer->verbs = pd->context;
	transfer->error_owner = mrg_private_error_owner();
	atomic_init(&transfer->wakes_at, 0);
	ret = take_opts(&transfer->opts, opts);
	if (!ret)
		ret = find_limits(transfer);
	if (ret) {
		free(transfer);
		return ret;
	}
	name_self(transfer);
	pthread_mutex_init(&transfer->lock, NULL);
	ret = transfer_control_start(transfer);
	if (ret) {
		pthread_mutex_destroy(&transfer->lock);
		free(transfer);
		return base_fail(0, ret, "open", "Raise the limits on threads and open files.",
				 "No thread can be started for handshakes: %s.", strerror(-ret));
	}
	*out = transfer;
	return 0;
}

int mrg_transfer_open(struct mrg_transfer **transfer, struct ibv_pd *pd,
		      const struct mrg_transfer_opts *opts)
{
	return transfer_open(transfer, pd, opts, &transfer_ops_verbs);
}

void mrg_transfer_close(struct mrg_transfer *transfer)
{
	if (!transfer)
		return;
	transfer_control_stop(transfer);
	pthread_mutex_destroy(&transfer->lock);
	free(transfer);
}
