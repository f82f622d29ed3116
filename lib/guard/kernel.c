/* SPDX-License-Identifier: MIT */
/*
 * What the kernel says of copy-on-fork, and which libibverbs this is: in place of
 * lib/region/fork_kernel.c, whose libnl would come into every program that is
 * guarded, and of which libibverbs is a part.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "region/fork_state.h"

#include "guard/real.h"

#define ANSWER_SIZE 4096

/* Attributes follow the header, each padded to 4 bytes: netlink(7). */
static enum mrg_kernel_copies read_answer(const char *answer, size_t length)
{
	size_t at = NLMSG_HDRLEN;

	while (at + NLA_HDRLEN <= length) {
		struct nlattr attr;

		memcpy(&attr, answer + at, sizeof(attr));
		if (attr.nla_len < NLA_HDRLEN || attr.nla_len > length - at)
			break;
		if ((attr.nla_type & NLA_TYPE_MASK) == RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK &&
		    attr.nla_len > NLA_HDRLEN)
			return answer[at + NLA_HDRLEN] ? MRG_KERNEL_COPIES : MRG_KERNEL_COPIES_NOT;
		at += NLA_ALIGN(attr.nla_len);
	}
	return MRG_KERNEL_SILENT;
}

static ssize_t ask(int sock, char *answer)
{
	struct nlmsghdr question = {
		.nlmsg_len = NLMSG_HDRLEN,
		.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET),
		.nlmsg_flags = NLM_F_REQUEST,
	};
	const struct timeval patience = { .tv_sec = 1 };

	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (send(sock, &question, sizeof(question), 0) < 0)
		return -errno;
	return recv(sock, answer, ANSWER_SIZE, 0);
}

enum mrg_kernel_copies region_fork_ask_kernel(int *error)
{
	int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	char answer[ANSWER_SIZE];
	struct nlmsghdr header;
	ssize_t length;

	*error = errno;
	if (sock < 0)
		return MRG_KERNEL_UNREACHED;
	length = ask(sock, answer);
	close(sock);
	*error = EIO;
	if (length < NLMSG_HDRLEN)
		return MRG_KERNEL_UNREACHED;
	memcpy(&header, answer, sizeof(header));
	*error = 0;
	/* Kernels before 4.18 refuse the question. */
	if (header.nlmsg_type == NLMSG_ERROR)
		return MRG_KERNEL_SILENT;
	return read_answer(answer, (size_t)length);
}

/* The file is libibverbs.so.1.ABI.RELEASE.PATCH (rdma-core's CMakeLists). */
unsigned int region_fork_rdma_core(void)
{
	const char *const stem = "libibverbs.so.1.";
	void *address = guard_real(0, REAL_FORK_INIT);
	unsigned int abi, release = 0;
	char file[PATH_MAX];
	const char *name;
	Dl_info info;

	if (!address || !dladdr(address, &info) || !realpath(info.dli_fname, file))
		return 0;
	name = strstr(file, stem);
	if (!name || sscanf(name + strlen(stem), "%u.%u", &abi, &release) != 2)
		return 0;
	return release;
}
