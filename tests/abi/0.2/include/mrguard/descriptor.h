/* SPDX-License-Identifier: MIT */
/*
 * What a peer needs to reach a buffer.  See mrg_descriptor(3).
 *
 * A descriptor is bytes: versioned, checksummed, in one byte order, and read
 * as if an enemy had written them.  Decoded it says where the buffer is, which
 * machine and registration it belongs to, which keys each RDMA device has for
 * it, and which share opens it to processes of the same machine.
 *
 * Functions here are pure: no state, no lock, any thread.
 */
#ifndef MRGUARD_DESCRIPTOR_H
#define MRGUARD_DESCRIPTOR_H

#include <sys/types.h>
#include <mrguard/common.h>
#include <mrguard/region.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * enum mrg_protocol - a way to a buffer's bytes
 * @MRG_PROTO_VERBS:	RDMA with keys, from any host
 * @MRG_PROTO_CUDA_VMM, @MRG_PROTO_HIP_VMM: chunks of VMM memory, by file
 *			descriptor, on the same machine
 * @MRG_PROTO_CUDA_IPC, @MRG_PROTO_HIP_IPC: an IPC handle, on the same machine
 * @MRG_PROTO_HOST_SHM:	host memory in memfds, on the same machine
 */
enum mrg_protocol {
	MRG_PROTO_NONE = 0,
	MRG_PROTO_VERBS,
	MRG_PROTO_CUDA_VMM,
	MRG_PROTO_HIP_VMM,
	MRG_PROTO_CUDA_IPC,
	MRG_PROTO_HIP_IPC,
	MRG_PROTO_HOST_SHM,
	MRG_PROTO_COUNT,
};
#define MRG_PROTO_BIT(protocol) (1u << (protocol))
#define MRG_PROTO_ALL ((1u << MRG_PROTO_COUNT) - 2)
#define MRG_PROTO_SHARES (MRG_PROTO_ALL & ~(1u << MRG_PROTO_VERBS))

/** mrg_protocol_name() - "verbs", "cuda-vmm", "hip-vmm", "cuda-ipc", "hip-ipc",
 *  "host-shm"; "none" for any other value */
MRG_API const char *mrg_protocol_name(enum mrg_protocol protocol);
/** mrg_protocol_parse() - the reverse; -EINVAL for other words */
MRG_API int mrg_protocol_parse(const char *name, enum mrg_protocol *protocol);

/** enum mrg_gid_type - what a GID speaks; values as in the descriptor's bytes */
enum mrg_gid_type {
	MRG_GID_IB = 0,
	MRG_GID_ROCE_V1 = 1,
	MRG_GID_ROCE_V2 = 2,
};

/**
 * struct mrg_desc_piece - one MR
 * @start:	bytes from the buffer's first byte
 * @length:	bytes
 * @wire:	remote address of its first byte in a work request
 * @rkey:	its key
 */
struct mrg_desc_piece {
	uint64_t start;
	uint64_t length;
	uint64_t wire;
	uint32_t rkey;
	uint32_t reserved; /* 0 */
};

/**
 * struct mrg_desc_device - the buffer on one RDMA device
 * @name:	the owner's name for it, for messages alone
 * @guid:	node GUID, in the byte order of the wire
 * @gid:	the GID that the owner would rather be reached at; zeros = none
 * @gid_type:	of @gid
 * @lid:	InfiniBand's; 0 on Ethernet
 * @port:	1...
 * @link_layer:	IBV_LINK_LAYER_*
 * @access:	IBV_ACCESS_* that the MRs have
 * @pieces, @count: in order, without gaps, together exactly the buffer
 */
struct mrg_desc_device {
	char name[64];
	uint64_t guid;
	uint8_t gid[16];
	enum mrg_gid_type gid_type;
	uint16_t lid;
	uint8_t port;
	uint8_t link_layer;
	uint32_t access;
	struct mrg_desc_piece *pieces;
	size_t count;
	uint64_t reserved[2]; /* 0 */
};

/**
 * struct mrg_desc_share - the buffer for processes of the same machine
 * @protocol:	one of MRG_PROTO_SHARES
 * @bytes, @length: for mrg_share_import()
 */
struct mrg_desc_share {
	enum mrg_protocol protocol;
	uint8_t *bytes;
	size_t length;
	uint64_t reserved; /* 0 */
};

#define MRG_DESC_MAX_BYTES (16u << 20)
#define MRG_DESC_MAX_DEVICES 64
#define MRG_DESC_MAX_PIECES (1u << 18) /* a device's */
#define MRG_DESC_MAX_SHARES 8
#define MRG_DESC_MAX_SHARE (1u << 20) /* bytes of one */

/**
 * struct mrg_descriptor - a buffer, as its owner's peers see it
 * @addr, @length: the owner's virtual addresses; transfers name bytes by them
 * @boot:	the owner's /proc/sys/kernel/random/boot_id as 16 bytes; zeros =
 *		not known.  Two hosts of one name differ here, and two boots do.
 * @host:	its host name, for messages alone
 * @instance:	the owner's registry, a random number made when it was opened
 * @generation:	the registration, in that registry: another registration of the
 *		same addresses has another
 * @devices, @device_count: may be none
 * @shares, @share_count: may be none
 * @unknown, @unknown_length: parts that a newer library wrote and that this one
 *	may skip; mrg_descriptor_encode() writes them again.  NULL and 0 otherwise
 */
struct mrg_descriptor {
	uint64_t addr;
	uint64_t length;
	uint8_t boot[16];
	char host[64];
	uint64_t instance;
	uint64_t generation;
	struct mrg_desc_device *devices;
	size_t device_count;
	struct mrg_desc_share *shares;
	size_t share_count;
	uint8_t *unknown;
	size_t unknown_length;
	uint64_t reserved[2]; /* 0 */
};

/**
 * mrg_descriptor_encode() - to bytes
 * @desc: must keep the limits above; reserved words are 0
 * @bytes: OUT, to be freed with free(3)
 *
 * Whoever has the bytes can reach the buffer: they hold its keys and tokens.
 *
 * Return: their number; -EINVAL (what mrg_descriptor_decode() would refuse);
 * -ENOMEM.
 */
MRG_API ssize_t mrg_descriptor_encode(const struct mrg_descriptor *desc, void **bytes);

/**
 * mrg_descriptor_decode() - from bytes, which may be anything
 * @bytes, @length: exactly one descriptor
 * @desc: OUT, to be released with mrg_descriptor_release()
 * @error: OUT cause and remedy when it fails; NULL is allowed
 *
 * Return: 0, or
 * -EBADMSG: no descriptor, cut short, damaged (checksum), or contradictory
 * -EPROTONOSUPPORT: of a version, or with a part, that this library does not
 *	know and must not skip
 * -EFBIG: above the limits;  -ENOMEM
 */
MRG_API int mrg_descriptor_decode(const void *bytes, size_t length, struct mrg_descriptor *desc,
				  struct mrg_error *error);

/** mrg_descriptor_release() - free what a decoded descriptor owns */
MRG_API void mrg_descriptor_release(struct mrg_descriptor *desc);

/**
 * mrg_descriptor_keys() - remote segments for a range of the peer's buffer
 * @desc: the peer's
 * @device: index in @desc->devices
 * @addr, @length: the range, in the owner's addresses
 * @segs: OUT in order, together exactly the range; each lkey is 0
 * @cap: room in @segs; 0 just counts, @segs may then be NULL
 *
 * The counterpart of mrg_keys(), for mrg_seg_pairs().  O(log pieces).
 *
 * Return: the number of segments; nothing was written if it is above @cap.
 * -ERANGE: not all bytes are in the buffer, or @length is 0; -ENODEV: no such
 * device.
 */
MRG_API ssize_t mrg_descriptor_keys(const struct mrg_descriptor *desc, size_t device, uint64_t addr,
				    uint64_t length, struct mrg_seg *segs, size_t cap);

/** mrg_descriptor_share() - the share of a protocol; NULL: it has none */
MRG_API const struct mrg_desc_share *mrg_descriptor_share(const struct mrg_descriptor *desc,
							  enum mrg_protocol protocol);

/** mrg_descriptor_protocols() - MRG_PROTO_BIT() of each protocol it has */
MRG_API uint32_t mrg_descriptor_protocols(const struct mrg_descriptor *desc);

/**
 * mrg_boot_id() - this machine's boot id
 * @boot: OUT as in struct mrg_descriptor
 *
 * Return: 0; -errno of reading it, and @boot is then zeros.
 */
MRG_API int mrg_boot_id(uint8_t boot[16]);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_DESCRIPTOR_H */
