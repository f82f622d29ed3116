/* SPDX-License-Identifier: MIT */
/* What kernel and libibverbs say about fork: netlink, and the library's file. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <rdma/rdma_netlink.h>

#include "region/fork_state.h"

static int take_answer(struct nl_msg *msg, void *arg)
{
	enum mrg_kernel_copies *answer = arg;
	struct nlattr *attr = nlmsg_find_attr(nlmsg_hdr(msg), 0, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK);

	if (!attr)
		*answer = MRG_KERNEL_SILENT;
	else
		*answer = nla_get_u8(attr) ? MRG_KERNEL_COPIES : MRG_KERNEL_COPIES_NOT;
	return NL_STOP;
}

/* Kernels before 4.18 do not know RDMA_NLDEV_CMD_SYS_GET, and say EINVAL. */
static int take_refusal(struct sockaddr_nl *from, struct nlmsgerr *refusal, void *arg)
{
	int *error = arg;

	(void)from;
	*error = -refusal->error;
	return NL_STOP;
}

static int ask(struct nl_sock *sock, enum mrg_kernel_copies *answer)
{
	int refusal = 0, ret;

	ret = nl_send_simple(sock, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET), 0, NULL,
			     0);
	if (ret < 0)
		return errno;
	nl_socket_modify_cb(sock, NL_CB_VALID, NL_CB_CUSTOM, take_answer, answer);
	nl_socket_modify_err_cb(sock, NL_CB_CUSTOM, take_refusal, &refusal);
	ret = nl_recvmsgs_default(sock);
	if (refusal)
		return refusal;
	return ret < 0 ? EIO : 0;
}

enum mrg_kernel_copies region_fork_ask_kernel(int *error)
{
	enum mrg_kernel_copies answer = MRG_KERNEL_UNREACHED;
	struct nl_sock *sock = nl_socket_alloc();

	*error = ENOMEM;
	if (!sock)
		return answer;
	nl_socket_disable_auto_ack(sock);
	/* libnl's own error codes hide errno, which says who refused. */
	errno = 0;
	if (nl_connect(sock, NETLINK_RDMA) < 0)
		*error = errno ? errno : EIO;
	else
		*error = ask(sock, &answer);
	if (*error == EINVAL || *error == EOPNOTSUPP) {
		answer = MRG_KERNEL_SILENT;
		*error = 0;
	}
	nl_socket_free(sock);
	return *error ? MRG_KERNEL_UNREACHED : answer;
}

/* The file is libibverbs.so.1.ABI.RELEASE.PATCH (rdma-core's CMakeLists). */
unsigned int region_fork_rdma_core(void)
{
	const char *const stem = "libibverbs.so.1.";
	unsigned int abi, release = 0;
	char file[PATH_MAX];
	const char *name;
	Dl_info info;

	if (!dladdr((void *)(uintptr_t)ibv_fork_init, &info) || !realpath(info.dli_fname, file))
		return 0;
	name = strstr(file, stem);
	if (!name || sscanf(name + strlen(stem), "%u.%u", &abi, &release) != 2)
		return 0;
	return release;
}
