/* SPDX-License-Identifier: MIT */
/*
 * What the kernel and libibverbs say about fork: RDMA netlink, and the name of
 * the library's file.
 *
 * By system calls and without libnl: the guard is linked with this file, and
 * must not bring libnl into the programs that it is preloaded into.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <infiniband/verbs.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include "region/fork_state.h"

#define ANSWER_SIZE 4096

/* Attributes follow the header, each padded to 4 bytes: netlink(7). */
static enum mrg_kernel_copies find_attribute(const char *answer, size_t length)
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

/* Kernels before 4.18 do not know RDMA_NLDEV_CMD_SYS_GET, and say EINVAL. */
static int read_answer(const char *answer, size_t length, enum mrg_kernel_copies *copies)
{
	struct nlmsghdr header;
	struct nlmsgerr refusal;

	if (length < NLMSG_HDRLEN)
		return EIO;
	memcpy(&header, answer, sizeof(header));
	if (header.nlmsg_type != NLMSG_ERROR) {
		*copies = find_attribute(answer, length);
		return 0;
	}
	if (length < NLMSG_HDRLEN + sizeof(refusal))
		return EIO;
	memcpy(&refusal, answer + NLMSG_HDRLEN, sizeof(refusal));
	*copies = MRG_KERNEL_SILENT;
	return refusal.error == -EINVAL || refusal.error == -EOPNOTSUPP ? 0 : -refusal.error;
}

static int ask(int sock, enum mrg_kernel_copies *copies)
{
	const struct nlmsghdr question = {
		.nlmsg_len = NLMSG_HDRLEN,
		.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET),
		.nlmsg_flags = NLM_F_REQUEST,
	};
	const struct timeval patience = { .tv_sec = 1 };
	char answer[ANSWER_SIZE];
	ssize_t length;

	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (send(sock, &question, sizeof(question), 0) < 0)
		return errno;
	do
		length = recv(sock, answer, sizeof(answer), 0);
	while (length < 0 && errno == EINTR);
	return length < 0 ? errno : read_answer(answer, (size_t)length, copies);
}

enum mrg_kernel_copies region_fork_ask_kernel(int *error)
{
	enum mrg_kernel_copies copies = MRG_KERNEL_UNREACHED;
	int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);

	*error = sock < 0 ? errno : ask(sock, &copies);
	if (sock >= 0)
		close(sock);
	return *error ? MRG_KERNEL_UNREACHED : copies;
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
