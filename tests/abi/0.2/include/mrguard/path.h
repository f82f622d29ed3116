/* SPDX-License-Identifier: MIT */
/*
 * Which way a transfer goes, and why.  See mrg_path(3).
 *
 * From both sides' descriptors, and from nothing else: no build switch and no
 * guess from host names.
 */
#ifndef MRGUARD_PATH_H
#define MRGUARD_PATH_H

#include <stdbool.h>
#include <mrguard/common.h>
#include <mrguard/descriptor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MRG_PATH_MAX_RAILS 64

/** struct mrg_path_rail - a local device and the peer's device that it talks to:
 *  indexes in the descriptors */
struct mrg_path_rail {
	uint32_t local;
	uint32_t remote;
	uint64_t reserved; /* 0 */
};

/**
 * struct mrg_path - the way
 * @protocol:	never MRG_PROTO_NONE after success
 * @share:	for a share: index in the peer's shares
 * @rails, @rail_count: for verbs: at least one; several for a transfer of
 *		opts->stripe_bytes or more, the nearest first
 * @reserved:	0
 */
struct mrg_path {
	enum mrg_protocol protocol;
	uint32_t share;
	uint32_t rail_count;
	uint32_t reserved[5];
	struct mrg_path_rail rails[MRG_PATH_MAX_RAILS];
};

/**
 * struct mrg_path_opts - what to choose from
 * @size:	sizeof(struct mrg_path_opts)
 * @order, @order_count: protocols, the most wanted first; those not named are
 *		not used.  NULL: the order of enum mrg_protocol, with verbs last.
 *		MRGUARD_PROTOCOLS in the environment ("cuda-vmm,verbs", or with a
 *		minus "-cuda-ipc" to exclude) comes before it.
 * @bytes:	of the transfer; 0 = not known, taken for a small one
 * @stripe_bytes: from how many bytes on all devices are used; 0 = 1 MiB
 * @near, @near_count: local devices (indexes in the local descriptor), the
 *		nearest to the buffer first, as mrg_near() gives them; NULL: as
 *		in the descriptor
 * @probe:	asked last about a way that is possible otherwise: for a share,
 *		does importing it work (@local 0, @remote its index); for verbs, is
 *		there a route between the two devices.  0, or -errno with @why
 *		filled in.  NULL: nothing is asked.
 * @probe_arg:	its first argument
 */
struct mrg_path_opts {
	size_t size;
	const enum mrg_protocol *order;
	size_t order_count;
	uint64_t bytes;
	uint64_t stripe_bytes;
	const uint32_t *near;
	size_t near_count;
	int (*probe)(void *arg, enum mrg_protocol protocol, const struct mrg_descriptor *local,
		     uint32_t local_index, const struct mrg_descriptor *remote,
		     uint32_t remote_index, struct mrg_error *why);
	void *probe_arg;
};

/**
 * struct mrg_path_reason - what became of one protocol
 * @protocol:	which
 * @code:	0: this way would do; -errno: why not
 *		(-EXDEV another machine, or not known to be the same;
 *		-ENOPROTOOPT the peer's buffer, or for verbs the own one, has no
 *		entry of it; -EPERM excluded; -EPROTONOSUPPORT the devices' link
 *		layers differ; -EACCES the MRs do not allow it; or the probe's)
 * @chosen:	this one was taken
 * @why:	one sentence
 * @reserved:	0
 */
struct mrg_path_reason {
	enum mrg_protocol protocol;
	int code;
	bool chosen;
	char why[256];
	uint64_t reserved[2];
};

/**
 * mrg_path_choose() - the way for a transfer
 * @local, @remote: both sides' descriptors.  @local needs entries for verbs
 *	alone: a share is the remote side's.
 * @opts: NULL for defaults
 * @path: OUT
 * @error: OUT when it fails; NULL is allowed
 *
 * A share only on the same machine (equal, known boot ids), and if the probe
 * finds it working; verbs otherwise.
 *
 * Return: 0; -EHOSTUNREACH (no way; @error tells of each why); -EINVAL
 * (malformed options or MRGUARD_PROTOCOLS).  Any thread.
 */
MRG_API int mrg_path_choose(const struct mrg_descriptor *local, const struct mrg_descriptor *remote,
			    const struct mrg_path_opts *opts, struct mrg_path *path,
			    struct mrg_error *error);

/**
 * mrg_explain_path() - the same choice, with the reasons
 * @reasons: OUT one for each protocol, in the order in which they were
 *	considered, then the excluded ones
 * @path: OUT if there is a way; NULL is allowed
 *
 * Asks the probe about every protocol, also those after the one taken.
 *
 * Return: the number of reasons, MRG_PROTO_COUNT - 1, also where there is no
 * way (none is chosen then); -EINVAL.
 */
MRG_API ssize_t mrg_explain_path(const struct mrg_descriptor *local,
				 const struct mrg_descriptor *remote,
				 const struct mrg_path_opts *opts,
				 struct mrg_path_reason reasons[MRG_PROTO_COUNT],
				 struct mrg_path *path);

/**
 * enum mrg_distance - how far two PCI functions are, the nearest first
 * @MRG_DISTANCE_SWITCH: below one PCIe switch
 * @MRG_DISTANCE_ROOT:	below one root port's bridge
 * @MRG_DISTANCE_NODE:	on one NUMA node
 * @MRG_DISTANCE_FAR:	on different nodes
 * @MRG_DISTANCE_UNKNOWN: not told
 */
enum mrg_distance {
	MRG_DISTANCE_SWITCH,
	MRG_DISTANCE_ROOT,
	MRG_DISTANCE_NODE,
	MRG_DISTANCE_FAR,
	MRG_DISTANCE_UNKNOWN,
};
/** mrg_distance_name() - "same switch", "same root port", ... */
MRG_API const char *mrg_distance_name(enum mrg_distance distance);

/** struct mrg_near_place - where a buffer is: on a GPU (@pci "0000:1b:00.0"), or
 *  in a NUMA node's memory (@pci "", @node >= 0); @node -1 = not known.
 *  @reserved: 0 */
struct mrg_near_place {
	char pci[16];
	int32_t node;
	uint32_t reserved[3];
};

/** struct mrg_near_nic - a NIC, by distance.  @index: in the list asked about */
struct mrg_near_nic {
	uint32_t index;
	enum mrg_distance distance;
	uint64_t reserved; /* 0 */
};

/**
 * mrg_near() - NICs by their distance to a buffer
 * @root: NULL = "/"; or a recorded host's
 * @place: the buffer's
 * @devices, @count: names of RDMA devices
 * @nics: OUT, room for @count; the nearest first, equals in the order given
 *
 * Return: 0; -EINVAL (non-zero reserved words); -ENOMEM; -errno of open(2) for
 * @root.  A device that is not there is MRG_DISTANCE_UNKNOWN.
 */
MRG_API int mrg_near(const char *root, const struct mrg_near_place *place,
		     const char *const *devices, size_t count, struct mrg_near_nic *nics);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_PATH_H */
