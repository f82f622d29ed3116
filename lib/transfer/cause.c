/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "transfer/request.h"
#include "transfer/slice.h"

/* By the InfiniBand specification, volume 1, 10.10.3 (completion errors). */
static const struct meaning {
	enum ibv_wc_status status;
	enum mrg_side side;
	int code;
	bool repeat;
	const char *remedy;
} meanings[] = {
	{ IBV_WC_LOC_LEN_ERR, MRG_SIDE_LOCAL, -EMSGSIZE, false, "Use a smaller slice." },
	{ IBV_WC_LOC_QP_OP_ERR, MRG_SIDE_LOCAL, -EIO, false,
	  "Use a smaller slice, and check what the device supports." },
	{ IBV_WC_LOC_PROT_ERR, MRG_SIDE_LOCAL, -EFAULT, false,
	  "Register the range on the endpoint's protection domain, with local write for READ." },
	{ IBV_WC_LOC_ACCESS_ERR, MRG_SIDE_LOCAL, -EFAULT, false,
	  "Register the range with local write." },
	/* Slices suit both sides' queue pairs, so packets were lost and
	 * their repetition went wrong: seen of rxe (6.12) on a link with losses. */
	{ IBV_WC_REM_INV_REQ_ERR, MRG_SIDE_REMOTE, -EREMOTEIO, true,
	  "Check that the peer's device serves READ, and lower the slice's size." },
	{ IBV_WC_REM_ACCESS_ERR, MRG_SIDE_REMOTE, -EACCES, false,
	  "Get the peer's present descriptor; it must let this operation in." },
	{ IBV_WC_REM_OP_ERR, MRG_SIDE_REMOTE, -EREMOTEIO, false,
	  "Look at the peer's device and its memory." },
	{ IBV_WC_RETRY_EXC_ERR, MRG_SIDE_PATH, -EHOSTUNREACH, true,
	  "Check both ports, their GIDs and the network between them." },
	{ IBV_WC_RNR_RETRY_EXC_ERR, MRG_SIDE_PATH, -EHOSTUNREACH, true,
	  "Look at the peer's device." },
	{ IBV_WC_RESP_TIMEOUT_ERR, MRG_SIDE_PATH, -EHOSTUNREACH, true,
	  "Check both ports and the network between them." },
	{ IBV_WC_REM_ABORT_ERR, MRG_SIDE_REMOTE, -EREMOTEIO, true, "Look at the peer's device." },
	{ IBV_WC_WR_FLUSH_ERR, MRG_SIDE_PATH, -EHOSTUNREACH, true,
	  "Look at the events of both devices." },
};

/* Not in the table: the device's own trouble, which may pass. */
static const struct meaning other = {
	IBV_WC_GENERAL_ERR,
	MRG_SIDE_DEVICE,
	-EIO,
	true,
	"Look at the device: its log has the vendor's code.",
};

static const struct meaning *find(uint32_t status)
{
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
		if (meanings[i].status == status)
			return &meanings[i];
	return &other;
}

bool transfer_cause_of(const struct ibv_wc *wc, struct mrg_result *result)
{
	const struct meaning *m = find(wc->status);

	result->status = m->code;
	result->side = m->side;
	result->wc_status = wc->status;
	result->vendor = wc->vendor_err;
	return m->repeat;
}

static const char *code_name(const struct transfer_request *request, const struct mrg_result *r)
{
	if (r->op >= request->op_count)
		return "Request";
	return request->ops[r->op].code == MRG_OP_READ ? "READ" : "WRITE";
}

/* A completion carried the cause. */
static void completion_words(const struct transfer_request *request, const struct mrg_result *r,
			     struct mrg_error *error)
{
	static const char *const where[] = {
		[MRG_SIDE_NONE] = "",
		[MRG_SIDE_LOCAL] = "this side",
		[MRG_SIDE_REMOTE] = "the peer",
		[MRG_SIDE_PATH] = "the path",
		[MRG_SIDE_DEVICE] = "this side's device",
	};
	const char *key = r->side == MRG_SIDE_LOCAL ? "lkey" : "rkey";

	base_error_set(
		error, r->status, "transfer", find(r->wc_status)->remedy,
		"%s %u of %u, %llu bytes at 0x%llx with %s 0x%x, failed: %s: %s (status %u, vendor 0x%x).",
		code_name(request, r), r->op, request->op_count, (unsigned long long)r->length,
		(unsigned long long)r->addr, key, r->key, where[r->side],
		ibv_wc_status_str((enum ibv_wc_status)r->wc_status), r->wc_status, r->vendor);
}

static void plain_words(const struct transfer_request *request, const struct mrg_result *r,
			struct mrg_error *error)
{
	unsigned long long moved = r->bytes, all = request->total;

	switch (r->status) {
	case -ETIMEDOUT:
		base_error_set(error, r->status, "deadline",
			       "Allow more time, or look at the path.",
			       "The deadline passed when %llu of %llu bytes were moved.", moved,
			       all);
		break;
	case -ECANCELED:
		base_error_set(error, r->status, "cancel", "",
			       "The request was cancelled when %llu of %llu bytes were moved.",
			       moved, all);
		break;
	case -ESTALE:
		base_error_set(error, r->status, "transfer", "Get the peer's present descriptor.",
			       "The peer has revoked the buffer of generation %llu.",
			       r->op < request->op_count ?
				       (unsigned long long)request->ops[r->op].remote->generation :
				       0);
		break;
	case -ENOMEM:
		base_error_set(error, r->status, "transfer", "Free memory on this host.",
			       "No memory is left to repeat a slice.");
		break;
	default:
		base_error_set(error, r->status, "post", "Look at the device's limits.",
			       "%s %u of %u failed: the device refuses %llu bytes: %s.",
			       code_name(request, r), r->op, request->op_count,
			       (unsigned long long)r->length, strerror((int)r->vendor));
	}
}

void transfer_cause_words(const struct transfer_request *request, struct mrg_error *error)
{
	if (request->result.wc_status)
		completion_words(request, &request->result, error);
	else
		plain_words(request, &request->result, error);
}
