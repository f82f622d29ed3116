/* SPDX-License-Identifier: MIT */
/*
 * Transfers: endpoints between two processes, and batches of READ and WRITE
 * over them.  See mrg_transfer(3).
 *
 * A request is done when no network card can write for it any more: not when
 * its deadline passes, and not when it is cancelled.  Each request has its own
 * cause of failure, and a failure of one does not fail the others.
 *
 * Reserved words are 0: calls refuse others with -EINVAL, and write 0.
 */
#ifndef MRGUARD_TRANSFER_H
#define MRGUARD_TRANSFER_H

#include <stdbool.h>
#include <sys/types.h>
#include <mrguard/common.h>
#include <mrguard/descriptor.h>
#include <mrguard/region.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mrg_transfer; /* one protection domain, ready to meet peers */
struct mrg_listener; /* where peers come in */
struct mrg_ep; /* an endpoint: the connection to one peer */
struct mrg_remote; /* a buffer of a peer */
struct mrg_buffer; /* <mrguard/registry.h> */

#define MRG_TRANSFER_GID_INDEX (1u << 0) /* gid_index is used */

/**
 * struct mrg_transfer_opts - how endpoints are made; 0 gives what is in brackets
 * @size:	sizeof(struct mrg_transfer_opts)
 * @port:	of the device [1]
 * @slice:	largest work request, bytes, at most the device's and 1 GiB
 *		[1 MiB]
 * @flags:	MRG_TRANSFER_*
 * @gid_index:	with MRG_TRANSFER_GID_INDEX: index of the GID table, 0 to 255.
 *		Without it: by the address of the peer.  MRGUARD_GID_INDEX, if
 *		set, is used before both
 * @lanes:	queue pairs of an endpoint, at most 16 [1].  Both sides have as
 *		many as the one that wants fewer.
 * @depth:	work requests in flight on a lane, at most the device's [128]
 * @max_ops:	operations of one endpoint that are not done yet, beyond which
 *		mrg_submit() does not take any [65536]
 * @handshake_ms: how long a connection may take to come about [5000]
 * @remake_ms:	how long it may take to re-make a broken lane [5000]
 * @grace_ms:	how long work requests of a cancelled or late request may end
 *		by themselves before their lane is broken for it [20]
 * @tries:	how often a slice is tried that fails on its way; 1 = it is not
 *		repeated [4]
 * @timeout, @packet_tries: of the queue pairs: 4.096 us * 2^timeout before a
 *		packet is repeated [14: 67 ms], how often it is sent, at most 8 [7].
 *		Soft RoCE takes 8 as for ever (rxe_comp.c): a path that is cut, or
 *		a peer's GID that has moved, would never be noticed.
 * @traffic_class, @service_level: of the queue pairs [0]
 */
struct mrg_transfer_opts {
	size_t size;
	uint64_t slice;
	uint32_t flags;
	uint32_t port;
	uint32_t gid_index;
	uint32_t lanes;
	uint32_t depth;
	uint32_t max_ops;
	uint32_t handshake_ms;
	uint32_t remake_ms;
	uint32_t grace_ms;
	uint32_t tries;
	uint32_t timeout;
	uint32_t packet_tries;
	uint32_t traffic_class;
	uint32_t service_level;
};

/**
 * mrg_transfer_open() - make a protection domain ready for transfers
 * @transfer: OUT, to be closed with mrg_transfer_close()
 * @pd: the caller's; buffers that are moved are registered on it
 * @opts: NULL for defaults
 *
 * Starts a thread that serves handshakes, deadlines and broken lanes; the data
 * path does not go through it.
 *
 * Return: 0; -EINVAL (options, MRGUARD_GID_INDEX); -ENOMEM; -EAGAIN (no
 * thread); or the -errno of asking the device.  Any thread may use the handle.
 */
MRG_API int mrg_transfer_open(struct mrg_transfer **transfer, struct ibv_pd *pd,
			      const struct mrg_transfer_opts *opts);

/** mrg_transfer_close() - NULL is allowed; endpoints and listeners made with it
 *  must be closed, and no other thread may be inside one of its calls */
MRG_API void mrg_transfer_close(struct mrg_transfer *transfer);

/**
 * mrg_transfer_last_error() - why the calling thread's last failed call failed
 * @transfer: NULL asks about a failed mrg_transfer_open()
 *
 * For all calls that take a transfer, a listener or an endpoint.  Each thread
 * keeps its own last failure.
 *
 * Return: 0; -ENODATA.
 */
MRG_API int mrg_transfer_last_error(const struct mrg_transfer *transfer, struct mrg_error *error);

/* ---- peers ---- */

/**
 * mrg_listener_open() - let peers come in
 * @host: address or name to listen on; NULL = all
 * @service: TCP port; "0" or NULL = any free one
 *
 * Peers connect as soon as this returns; mrg_listener_accept() hands them out.
 *
 * Return: 0; -EINVAL (no such address); -errno of socket(2), bind(2), listen(2).
 */
MRG_API int mrg_listener_open(struct mrg_transfer *transfer, const char *host, const char *service,
			      struct mrg_listener **listener);
/** mrg_listener_close() - peers that were not accepted are let go; NULL is
 *  allowed */
MRG_API void mrg_listener_close(struct mrg_listener *listener);
/** mrg_listener_port() - the TCP port.  Any thread. */
MRG_API unsigned int mrg_listener_port(const struct mrg_listener *listener);

/**
 * mrg_listener_accept() - the next peer
 * @timeout_ms: -1 = for ever
 * @ep: OUT, to be closed with mrg_ep_close()
 *
 * Return: 0; -EAGAIN (none within the time).  Any thread.
 */
MRG_API int mrg_listener_accept(struct mrg_listener *listener, int timeout_ms, struct mrg_ep **ep);

/**
 * mrg_ep_connect() - connect to a peer that listens
 * @ep: OUT, to be closed with mrg_ep_close()
 *
 * Return: 0, or
 * -EINVAL: no such address
 * -ETIMEDOUT: no answer within opts.handshake_ms
 * -ECONNREFUSED and others of connect(2)
 * -EPROTONOSUPPORT: the peer speaks another version;  -EPROTO: no mrguard
 * -ENETDOWN: the port is not active;  -ENODEV: it has no usable GID
 * -EREMOTEIO: the peer could not; mrg_transfer_last_error() has its own words
 * -EMFILE, -ENFILE, -ENOMEM: no descriptors or memory for an endpoint
 * or the -errno of making queue pairs.  Any thread.
 */
MRG_API int mrg_ep_connect(struct mrg_transfer *transfer, const char *host, const char *service,
			   struct mrg_ep **ep);

/**
 * mrg_ep_close() - close an endpoint; NULL is allowed
 *
 * Requests that are not done are cancelled, and the call waits until no network
 * card can write for them: opts.remake_ms at most.  All requests are freed with
 * the endpoint.  No other thread may use it.
 */
MRG_API void mrg_ep_close(struct mrg_ep *ep);

/**
 * mrg_ep_status() - can the endpoint be used
 * @error: OUT why not, if not NULL and the return value is negative
 *
 * Return: the number of lanes that are up, 0 while all are being re-made, or
 * the -errno for which it is of no use any more: -ESHUTDOWN (the peer closed
 * it), -ECONNRESET (the peer is gone), -ETIMEDOUT (no sign of the peer while a
 * lane was re-made), -EHOSTUNREACH (lanes break again and again), -EREMOTEIO
 * (the peer says why), -ENOBUFS (64 MiB of notes were not collected), -EIO (the
 * device).  Any thread.
 */
MRG_API int mrg_ep_status(struct mrg_ep *ep, struct mrg_error *error);

/** mrg_ep_peer() - the peer's address, for people; as long as the endpoint */
MRG_API const char *mrg_ep_peer(const struct mrg_ep *ep);

/* What an endpoint has done so far. */
struct mrg_ep_stats {
	uint64_t requests; /* done, in whatever way */
	uint64_t failed; /* of them */
	uint64_t bytes; /* moved by what was posted here */
	uint64_t slices; /* work requests posted */
	uint64_t repeated; /* of them, because they failed on their way */
	uint64_t remade; /* lanes that broke and were made again */
	uint32_t lanes;
	uint32_t depth;
	uint64_t reserved[4]; /* 0 */
};
/** mrg_ep_stats() - any thread */
MRG_API void mrg_ep_stats(struct mrg_ep *ep, struct mrg_ep_stats *stats);

#define MRG_NOTE_MAX 65536

/**
 * mrg_ep_send() - a note to the peer, over the handshake's connection
 * @length: 1 to MRG_NOTE_MAX bytes
 *
 * For descriptors and small words; it keeps no order with requests but this:
 * what was done before is seen by the peer before the note is.
 *
 * Return: 0; -EINVAL; -EAGAIN (the peer does not read: 16 MiB wait); -ENOMEM;
 * or what mrg_ep_status() says.  Any thread.
 */
MRG_API int mrg_ep_send(struct mrg_ep *ep, const void *bytes, size_t length);

/**
 * mrg_ep_receive() - the next note of the peer
 * @bytes: OUT, room for @cap bytes
 * @timeout_ms: -1 = for ever
 *
 * Return: its length; -EAGAIN (none within the time); -EMSGSIZE (longer than
 * @cap, and kept); or what mrg_ep_status() says, once all notes are read.  Any
 * thread.
 */
MRG_API ssize_t mrg_ep_receive(struct mrg_ep *ep, void *bytes, size_t cap, int timeout_ms);

/* ---- the peer's buffers ---- */

/**
 * mrg_remote_make() - a peer's buffer by its pieces
 * @addr: its first byte, by the peer's address: struct mrg_descriptor's
 * @pieces, @count: those of the peer's device that the endpoint reaches, in
 *	order, without gaps; copied
 * @generation: names this registration; see mrg_ep_revoke().  0 = none.
 * @remote: OUT, to be freed when no request with it is left
 *
 * Return: 0; -EINVAL (none, empty, a gap, out of order); -ERANGE (reaches
 * beyond 64 bits); -ENOMEM.
 */
MRG_API int mrg_remote_make(uint64_t addr, const struct mrg_desc_piece *pieces, size_t count,
			    uint64_t generation, struct mrg_remote **remote);
/** mrg_remote_free() - NULL is allowed */
MRG_API void mrg_remote_free(struct mrg_remote *remote);
/** mrg_remote_addr() - the first byte's address on the peer */
MRG_API uint64_t mrg_remote_addr(const struct mrg_remote *remote);
/** mrg_remote_length() - in bytes */
MRG_API uint64_t mrg_remote_length(const struct mrg_remote *remote);

/**
 * mrg_remote_pieces() - the pieces of a buffer of this side, for a peer
 * @mr: the buffer
 * @pieces: OUT, room for @cap
 *
 * Return: their number; nothing was written if it is above @cap.  Any thread.
 */
MRG_API size_t mrg_remote_pieces(const struct mrg_mr *mr, struct mrg_desc_piece *pieces,
				 size_t cap);

/**
 * mrg_ep_revoke() - before a buffer is deregistered: stop the peer using it
 * @generation: as the peer gave it to mrg_remote_make(); not 0
 * @timeout_ms: -1 = for ever
 *
 * The peer's requests to it fail with -ESTALE, those posted end first, and
 * none is repeated: what was written afterwards would be another buffer.
 *
 * Return: 0, once nothing of the peer is on its way to it; -EINVAL (generation
 * 0); -EOPNOTSUPP (the peer cannot: close the endpoint); -ETIMEDOUT; or what
 * mrg_ep_status() says: then, too, nothing can come over this endpoint any more.
 * Any thread.
 */
MRG_API int mrg_ep_revoke(struct mrg_ep *ep, uint64_t generation, int timeout_ms);

/* ---- requests ---- */

enum mrg_op_code { MRG_OP_READ, MRG_OP_WRITE };

/**
 * struct mrg_local - a range of a registered buffer of this side
 * @mr:		the buffer; NULL with @buffer
 * @addr, @length: the range, by its virtual address
 * @buffer:	a buffer of a registry instead, registered or held; the request
 *		holds it until it is done, so that unregistering waits
 * @device:	with @buffer: the registry's number of the endpoint's device
 */
struct mrg_local {
	const struct mrg_mr *mr;
	uint64_t addr;
	uint64_t length;
	struct mrg_buffer *buffer;
	uint32_t device;
	uint32_t reserved[3]; /* 0 */
};

/**
 * struct mrg_op - one READ or WRITE
 * @code:	which
 * @local_count: ranges of this side: WRITE gathers them, READ scatters to
 *		them, in order
 * @local:	the ranges; copied
 * @remote:	the peer's buffer
 * @remote_addr: where in it, by the peer's address; as many bytes as the
 *		local ranges have together
 */
struct mrg_op {
	enum mrg_op_code code;
	uint32_t local_count;
	const struct mrg_local *local;
	const struct mrg_remote *remote;
	uint64_t remote_addr;
	uint64_t reserved[2]; /* 0 */
};

#define MRG_SUBMIT_WAIT (1u << 0) /* wait for room, until the deadline */

/**
 * struct mrg_submit_opts - how a batch is carried out
 * @size:	sizeof(struct mrg_submit_opts)
 * @flags:	MRG_SUBMIT_*
 * @deadline_ms: from now on; 0 = none
 * @user:	comes back in struct mrg_done
 */
struct mrg_submit_opts {
	size_t size;
	uint32_t flags;
	uint32_t deadline_ms;
	void *user;
};

/**
 * mrg_submit() - start a batch
 * @ops: copied with the ranges they point to
 * @count: 1 to opts.max_ops
 * @opts: NULL for defaults
 * @request: OUT, the batch's number, until mrg_request_free(); NULL if struct
 *	mrg_done is enough
 *
 * Operations have no order among them, within a batch and between batches.  A
 * part of a batch that failed on its way is repeated, so bytes may be moved
 * more than once until it is done; never afterwards.
 *
 * A request is known by a number, which is never 0, and which the process does
 * not use again.  Calls that take one fail with -ESTALE if it was freed, or is
 * not one of the endpoint.
 *
 * Work goes on in mrg_submit(), mrg_poll() and mrg_wait().  Memory, keys and
 * @remote must stay until the request is done.
 *
 * Return: 0, or
 * -EAGAIN: opts.max_ops are on their way: poll, or use MRG_SUBMIT_WAIT; with
 *	it, no room came before the deadline
 * -EINVAL: no operation, an unknown one or flag, an empty range, a reserved word
 * -ERANGE: bytes outside of their buffer; mrg_transfer_last_error() says which
 * -ESTALE: the peer has revoked the buffer
 * -EBUSY: a buffer of this side is being unregistered
 * -ENOPROTOOPT: it is not registered for verbs on that device
 * -E2BIG: more than opts.max_ops;  -ENOMEM, also with 16,777,216 requests that
 *	are not freed
 * -EOPNOTSUPP: READ, and one of the devices takes none
 * or what mrg_ep_status() says.  Any thread; two endpoints share no lock.
 */
MRG_API int mrg_submit(struct mrg_ep *ep, const struct mrg_op *ops, size_t count,
		       const struct mrg_submit_opts *opts, uint64_t *request);

/* A request that is done. */
struct mrg_done {
	uint64_t request;
	void *user;
	int status; /* 0 or -errno, see struct mrg_result */
	uint32_t reserved[3]; /* 0 */
};

/**
 * mrg_poll() - carry on, and collect what is done
 * @done: OUT, each request once; it is the caller's to free
 * @cap: room in @done; 0 carries on only
 *
 * Never blocks.  Return: how many.  Any thread.
 */
MRG_API int mrg_poll(struct mrg_ep *ep, struct mrg_done *done, int cap);

/**
 * mrg_wait() - until one request is done
 * @timeout_ms: -1 = for ever
 *
 * A request that is waited for is not handed out by mrg_poll() as well.
 *
 * Return: 0, done (look at mrg_request_result()); -EAGAIN; -ESTALE.  Any thread,
 * one a request.
 */
MRG_API int mrg_wait(struct mrg_ep *ep, uint64_t request, int timeout_ms);

/**
 * mrg_cancel() - end a request early
 *
 * It is done, with -ECANCELED, when no network card can write for it any more:
 * bounded by opts.grace_ms and opts.remake_ms.  One that is done stays as it
 * is.
 *
 * Return: 0; -ESTALE.  Any thread.
 */
MRG_API int mrg_cancel(struct mrg_ep *ep, uint64_t request);

/**
 * mrg_request_free() - forget a request that is done
 *
 * Return: 0; -EAGAIN (not done); -ESTALE.  Any thread.
 */
MRG_API int mrg_request_free(struct mrg_ep *ep, uint64_t request);

enum mrg_side {
	MRG_SIDE_NONE, /* no fault of either */
	MRG_SIDE_LOCAL, /* this side's memory or key */
	MRG_SIDE_REMOTE, /* the peer's memory or key */
	MRG_SIDE_PATH, /* between the two */
	MRG_SIDE_DEVICE, /* this side's device */
};

#define MRG_RESULT_UNSETTLED (1u << 0) /* the peer did not confirm that its device takes no more */

/**
 * struct mrg_result - how a request ended
 * @status:	0; or the first cause:
 *		-EFAULT, -EMSGSIZE (this side's range or key), -EACCES (the peer
 *		does not let us), -EREMOTEIO, -EHOSTUNREACH (no answer on the
 *		path), -EIO (device), -ETIMEDOUT (deadline), -ECANCELED,
 *		-ESTALE (revoked), or the endpoint's (mrg_ep_status())
 * @side:	the side at fault
 * @op:		index of the operation concerned
 * @wc_status:	enum ibv_wc_status, 0 if no completion carried it
 * @vendor:	the completion's vendor_err
 * @addr, @length: the range concerned: wire address of @side's range
 * @key:	its lkey or rkey
 * @flags:	MRG_RESULT_*
 * @bytes:	moved for sure
 */
struct mrg_result {
	int status;
	enum mrg_side side;
	uint32_t op;
	uint32_t wc_status;
	uint32_t vendor;
	uint32_t key;
	uint64_t addr;
	uint64_t length;
	uint32_t flags;
	uint32_t repeated; /* slices that were repeated */
	uint64_t bytes;
	uint64_t reserved[2]; /* 0 */
};

/**
 * mrg_request_result() - how a request that is done ended
 *
 * Return: 0; -EAGAIN (not done); -ESTALE.  Any thread.
 */
MRG_API int mrg_request_result(struct mrg_ep *ep, uint64_t request, struct mrg_result *result);
/** mrg_request_error() - the same in words; @error->code is the status */
MRG_API int mrg_request_error(struct mrg_ep *ep, uint64_t request, struct mrg_error *error);

/**
 * mrg_ep_fd() - a file descriptor for poll(2) and epoll(7)
 *
 * Readable when something can be collected, after mrg_ep_arm().  The
 * endpoint's own: not to be read or closed.
 */
MRG_API int mrg_ep_fd(const struct mrg_ep *ep);

/**
 * mrg_ep_arm() - before sleeping on mrg_ep_fd()
 *
 * For the one thread that sleeps on the descriptor: another's mrg_poll() or
 * mrg_wait() collects what made it readable, and it may not become so again.
 *
 * Return: 0: sleep; 1: something is there already, poll again.
 */
MRG_API int mrg_ep_arm(struct mrg_ep *ep);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_TRANSFER_H */
