/* SPDX-License-Identifier: MIT */
/* An RDMA device's limits, and the MRs that are on it now. */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <rdma/rdma_netlink.h>

#include "explain/explain.h"

struct ibv_context *explain_open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **at = list;
	struct ibv_context *device;
	int error = ENODEV;

	if (!list)
		return NULL;
	while (*at && strcmp(ibv_get_device_name(*at), name))
		at++;
	device = *at ? ibv_open_device(*at) : NULL;
	if (*at && !device)
		error = errno;
	ibv_free_device_list(list);
	errno = error;
	return device;
}

struct count {
	const char *device;
	uint64_t mrs;
	bool found;
};

/* One entry of the summary: a name ("mr", "qp", ...) and how many there are. */
static void take_entry(struct nlattr *entry, struct count *count)
{
	struct nlattr *name, *current;

	name = nla_find(nla_data(entry), nla_len(entry), RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME);
	current = nla_find(nla_data(entry), nla_len(entry), RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR);
	if (!name || !current || strcmp(nla_get_string(name), "mr"))
		return;
	count->mrs = nla_get_u64(current);
	count->found = true;
}

static int take_summary(struct nl_msg *msg, void *arg)
{
	struct nlmsghdr *header = nlmsg_hdr(msg);
	struct count *count = arg;
	struct nlattr *name, *summary, *entry;
	int rest;

	name = nlmsg_find_attr(header, 0, RDMA_NLDEV_ATTR_DEV_NAME);
	summary = nlmsg_find_attr(header, 0, RDMA_NLDEV_ATTR_RES_SUMMARY);
	if (!name || !summary || strcmp(nla_get_string(name), count->device))
		return NL_OK;
	nla_for_each_nested(entry, summary, rest) take_entry(entry, count);
	return NL_OK;
}

/* What `rdma resource show' prints as "mr N". */
static bool count_mrs(const char *device, uint64_t *mrs)
{
	struct count count = { .device = device };
	struct nl_sock *sock = nl_socket_alloc();

	if (!sock)
		return false;
	nl_socket_modify_cb(sock, NL_CB_VALID, NL_CB_CUSTOM, take_summary, &count);
	if (!nl_connect(sock, NETLINK_RDMA) &&
	    nl_send_simple(sock, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_GET),
			   NLM_F_DUMP, NULL, 0) >= 0)
		nl_recvmsgs_default(sock);
	nl_socket_free(sock);
	*mrs = count.mrs;
	return count.found;
}

int explain_ask_dmabuf(struct ibv_context *device, int *answer)
{
	struct ibv_pd *pd = ibv_alloc_pd(device);
	struct ibv_mr *mr;

	*answer = 0;
	if (!pd)
		return -errno;
	errno = 0;
	mr = ibv_reg_dmabuf_mr(pd, 0, (size_t)sysconf(_SC_PAGESIZE), 0, -1, IBV_ACCESS_LOCAL_WRITE);
	*answer = mr ? 0 : -errno;
	if (mr)
		ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	return 0;
}

void explain_ask_device(struct mrg_explain_opts *opts, int *dmabuf_answer)
{
	struct ibv_context *device;
	struct ibv_device_attr attr;
	uint64_t mrs;

	*dmabuf_answer = 0;
	if (!opts->device)
		return;
	device = explain_open_device(opts->device);
	if (!device)
		return;
	if (!ibv_query_device(device, &attr)) {
		if (!opts->max_mr_size)
			opts->max_mr_size = attr.max_mr_size;
		if (!opts->max_mrs && count_mrs(opts->device, &mrs)) {
			opts->mrs = mrs;
			opts->max_mrs = (uint64_t)attr.max_mr;
		}
	}
	if (opts->call == MRG_CALL_REG_DMABUF_MR)
		explain_ask_dmabuf(device, dmabuf_answer);
	ibv_close_device(device);
}
