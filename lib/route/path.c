/* SPDX-License-Identifier: MIT */
/* The way of a transfer, and the reasons for it. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mrguard/path.h>

#include "base/error.h"
#include "base/opts.h"

#define STRIPE_BYTES (1u << 20)
#define VARIABLE "MRGUARD_PROTOCOLS"

/* All that a choice depends on. */
struct question {
	const struct mrg_descriptor *local;
	const struct mrg_descriptor *remote;
	struct mrg_path_opts opts;
	enum mrg_protocol order[MRG_PROTO_COUNT];
	size_t count;
	uint32_t excluded;
};

__attribute__((format(printf, 3, 4))) static int because(struct mrg_path_reason *reason, int code,
							 const char *format, ...)
{
	va_list args;

	reason->code = code;
	va_start(args, format);
	vsnprintf(reason->why, sizeof(reason->why), format, args);
	va_end(args);
	return code;
}

/* ---- the order ---- */

static bool is_listed(const struct question *q, enum mrg_protocol protocol)
{
	for (size_t i = 0; i < q->count; i++)
		if (q->order[i] == protocol)
			return true;
	return false;
}

static int append(struct question *q, enum mrg_protocol protocol)
{
	if (protocol <= MRG_PROTO_NONE || protocol >= MRG_PROTO_COUNT)
		return -EINVAL;
	if (!is_listed(q, protocol))
		q->order[q->count++] = protocol;
	return 0;
}

static int order_of_opts(struct question *q)
{
	int ret = 0;

	for (size_t i = 0; q->opts.order && i < q->opts.order_count && !ret; i++)
		ret = append(q, q->opts.order[i]);
	if (q->opts.order)
		return ret;
	for (int i = MRG_PROTO_VERBS + 1; i < MRG_PROTO_COUNT; i++)
		append(q, (enum mrg_protocol)i);
	return append(q, MRG_PROTO_VERBS);
}

static int take_word(struct question *q, const char *word, bool *names)
{
	bool excludes = *word == '-';
	enum mrg_protocol protocol;
	int ret = mrg_protocol_parse(word + excludes, &protocol);

	if (ret)
		return ret;
	if (excludes) {
		q->excluded |= MRG_PROTO_BIT(protocol);
		return 0;
	}
	if (!*names)
		q->count = 0;
	*names = true;
	return append(q, protocol);
}

/* Words with a minus exclude; others, if there are any, are the order. */
static int order_of_env(struct question *q, struct mrg_error *error)
{
	const char *value = secure_getenv(VARIABLE);
	char *copy, *word, *rest;
	bool names = false;
	int ret = 0;

	if (!value || !*value)
		return 0;
	copy = strdup(value);
	if (!copy)
		return base_error_set(error, -ENOMEM, "read environment", "Free memory.",
				      "There is no memory for " VARIABLE ".");
	for (word = strtok_r(copy, ", ", &rest); word && !ret; word = strtok_r(NULL, ", ", &rest)) {
		ret = take_word(q, word, &names);
		if (ret)
			base_error_set(error, ret, "read environment",
				       "Name protocols as mrg_protocol_name() does, with commas.",
				       VARIABLE "=%s: \"%s\" is no protocol.", value, word);
	}
	free(copy);
	return ret;
}

static int ask(struct question *q, const struct mrg_descriptor *local,
	       const struct mrg_descriptor *remote, const struct mrg_path_opts *opts,
	       struct mrg_error *error)
{
	memset(q, 0, sizeof(*q));
	q->local = local;
	q->remote = remote;
	if (base_opts_copy(&q->opts, sizeof(q->opts), opts) || order_of_opts(q))
		return base_error_set(error, -EINVAL, "check options", BASE_OPTS_REMEDY,
				      "The options are malformed.");
	if (!q->opts.stripe_bytes)
		q->opts.stripe_bytes = STRIPE_BYTES;
	return order_of_env(q, error);
}

/* ---- shares ---- */

static bool same_machine(const struct question *q)
{
	static const uint8_t unknown[16];

	return memcmp(q->local->boot, unknown, sizeof(unknown)) &&
	       !memcmp(q->local->boot, q->remote->boot, sizeof(unknown));
}

/* Enough of a boot id to tell two of them apart at sight. */
static uint32_t boot_start(const struct mrg_descriptor *desc)
{
	return (uint32_t)desc->boot[0] << 24 | (uint32_t)desc->boot[1] << 16 |
	       (uint32_t)desc->boot[2] << 8 | desc->boot[3];
}

static int probe(const struct question *q, enum mrg_protocol protocol, uint32_t local,
		 uint32_t remote, struct mrg_path_reason *reason)
{
	struct mrg_error why = { .cause = "" };
	int ret;

	if (!q->opts.probe)
		return 0;
	ret = q->opts.probe(q->opts.probe_arg, protocol, q->local, local, q->remote, remote, &why);
	if (!ret)
		return 0;
	if (why.cause[0])
		return because(reason, ret, "%s", why.cause);
	return because(reason, ret, "The probe failed: %s.", strerror(-ret));
}

static int judge_share(const struct question *q, enum mrg_protocol protocol, struct mrg_path *path,
		       struct mrg_path_reason *reason)
{
	const struct mrg_desc_share *share = mrg_descriptor_share(q->remote, protocol);
	int ret;

	if (!share)
		return because(reason, -ENOPROTOOPT,
			       "The peer has not registered the buffer for %s.",
			       mrg_protocol_name(protocol));
	if (!same_machine(q))
		return because(reason, -EXDEV,
			       "Hosts %s and %s are not known to be one machine: "
			       "their boot ids are %08x and %08x.",
			       q->local->host, q->remote->host, boot_start(q->local),
			       boot_start(q->remote));
	path->share = (uint32_t)(share - q->remote->shares);
	ret = probe(q, protocol, 0, path->share, reason);
	if (ret)
		return ret;
	return because(reason, 0, "Both sides are on one machine, and the peer shares the buffer.");
}

/* ---- verbs ---- */

static int judge_pair(const struct question *q, uint32_t local, uint32_t remote,
		      struct mrg_path_reason *reason)
{
	const struct mrg_desc_device *mine = &q->local->devices[local];
	const struct mrg_desc_device *theirs = &q->remote->devices[remote];

	if (mine->link_layer != theirs->link_layer)
		return because(reason, -EPROTONOSUPPORT,
			       "Device %s and the peer's %s are not of one link layer.", mine->name,
			       theirs->name);
	if (!(theirs->access & (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)))
		return because(reason, -EACCES,
			       "The peer's MRs on %s allow neither remote read nor write.",
			       theirs->name);
	return probe(q, MRG_PROTO_VERBS, local, remote, reason);
}

/*
 * The peer's device for one of ours: those that no rail has taken before the
 * others, and from the one in the same place on, as rails are mostly cabled.
 * Return: its index, or -errno with the last reason.
 */
static int pick_remote(const struct question *q, uint32_t local, uint64_t taken,
		       struct mrg_path_reason *reason)
{
	uint32_t count = (uint32_t)q->remote->device_count;
	int ret = -ENODEV;

	for (int again = 0; again < 2; again++)
		for (uint32_t i = 0; i < count; i++) {
			uint32_t remote = (local + i) % count;

			if ((taken >> remote & 1) != (uint64_t)again)
				continue;
			ret = judge_pair(q, local, remote, reason);
			if (!ret)
				return (int)remote;
		}
	return ret;
}

static int judge_rails(const struct question *q, struct mrg_path *path,
		       struct mrg_path_reason *reason)
{
	bool all = q->opts.bytes >= q->opts.stripe_bytes;
	size_t count = q->opts.near ? q->opts.near_count : q->local->device_count;
	int remote = -ENODEV;
	uint64_t taken = 0;

	if (!count)
		return because(reason, -ENODEV,
			       "The list of near devices is empty: no local device is near.");
	for (uint32_t i = 0; i < count && path->rail_count < MRG_PATH_MAX_RAILS; i++) {
		uint32_t local = q->opts.near ? q->opts.near[i] : i;

		if (local >= q->local->device_count)
			return because(reason, -EINVAL,
				       "The list of near devices names device %u of %zu.", local,
				       q->local->device_count);
		remote = pick_remote(q, local, taken, reason);
		if (remote < 0)
			continue;
		taken |= 1ull << remote;
		path->rails[path->rail_count++] =
			(struct mrg_path_rail){ .local = local, .remote = (uint32_t)remote };
		if (!all)
			break;
	}
	return path->rail_count ? 0 : remote;
}

static int judge_verbs(const struct question *q, struct mrg_path *path,
		       struct mrg_path_reason *reason)
{
	const struct mrg_path_rail *first = path->rails;
	int ret;

	if (!q->remote->device_count || !q->local->device_count)
		return because(reason, -ENOPROTOOPT, "%s buffer is not registered for verbs.",
			       q->remote->device_count ? "The local" : "The peer's");
	ret = judge_rails(q, path, reason);
	if (ret)
		return ret;
	return because(reason, 0, "Device %s reaches the peer's %s%s.",
		       q->local->devices[first->local].name, q->remote->devices[first->remote].name,
		       path->rail_count > 1 ? ", and there are further rails" : "");
}

/* ---- the choice ---- */

static int judge(const struct question *q, enum mrg_protocol protocol, struct mrg_path *path,
		 struct mrg_path_reason *reason)
{
	memset(path, 0, sizeof(*path));
	memset(reason, 0, sizeof(*reason));
	path->protocol = reason->protocol = protocol;
	if (!is_listed(q, protocol) || q->excluded & MRG_PROTO_BIT(protocol))
		return because(reason, -EPERM, "The protocol is excluded by %s.",
			       q->excluded & MRG_PROTO_BIT(protocol) ? VARIABLE :
								       "the order of the options");
	if (protocol == MRG_PROTO_VERBS)
		return judge_verbs(q, path, reason);
	return judge_share(q, protocol, path, reason);
}

ssize_t mrg_explain_path(const struct mrg_descriptor *local, const struct mrg_descriptor *remote,
			 const struct mrg_path_opts *opts,
			 struct mrg_path_reason reasons[MRG_PROTO_COUNT], struct mrg_path *path)
{
	struct mrg_path way;
	struct question q;
	size_t considered;
	bool found = false;
	int ret = ask(&q, local, remote, opts, NULL);

	if (ret)
		return ret;
	considered = q.count;
	for (int i = MRG_PROTO_VERBS; i < MRG_PROTO_COUNT; i++)
		if (!is_listed(&q, (enum mrg_protocol)i))
			q.order[considered++] = (enum mrg_protocol)i;
	for (size_t i = 0; i < considered; i++) {
		ret = judge(&q, q.order[i], &way, &reasons[i]);
		if (ret || found)
			continue;
		found = reasons[i].chosen = true;
		if (path)
			*path = way;
	}
	return (ssize_t)considered;
}

int mrg_path_choose(const struct mrg_descriptor *local, const struct mrg_descriptor *remote,
		    const struct mrg_path_opts *opts, struct mrg_path *path,
		    struct mrg_error *error)
{
	char reasons[sizeof(error->cause)] = "";
	struct mrg_path_reason reason;
	struct mrg_path way;
	struct question q;
	size_t length = 0;
	int ret = ask(&q, local, remote, opts, error);

	if (ret)
		return ret;
	for (size_t i = 0; i < q.count; i++) {
		if (!judge(&q, q.order[i], &way, &reason)) {
			*path = way;
			return 0;
		}
		if (reason.code == -ENOPROTOOPT && q.order[i] != MRG_PROTO_VERBS)
			continue;
		length += (size_t)snprintf(reasons + length, sizeof(reasons) - length,
					   " For %s: %s", mrg_protocol_name(q.order[i]),
					   reason.why);
		if (length >= sizeof(reasons))
			length = sizeof(reasons) - 1;
	}
	/* As many reasons as there is room for. */
	return base_error_set(error, -EHOSTUNREACH, "choose path",
			      "Register the buffer for a protocol that both sides have.",
			      "No way leads to the buffer of %s.%s", remote->host,
			      length ? reasons : " All protocols are excluded.");
}
