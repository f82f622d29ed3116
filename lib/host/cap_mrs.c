/* SPDX-License-Identifier: MIT */
/* The MRs of more than 4 GiB that RDMA netlink shows, and the lines that keep them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <rdma/rdma_netlink.h>

#include "base/grow.h"
#include "base/text.h"
#include "host/cap.h"

struct device {
	uint32_t index;
	char name[64];
};

struct listing {
	struct device *devices;
	size_t count, room;
	char *to;
	size_t left;
	int error;
};

static uint32_t u32_of(struct nlattr *attr)
{
	return attr && nla_len(attr) >= (int)sizeof(uint32_t) ? nla_get_u32(attr) : 0;
}

static int take_device(struct nl_msg *msg, void *arg)
{
	struct nlattr *name = nlmsg_find_attr(nlmsg_hdr(msg), 0, RDMA_NLDEV_ATTR_DEV_NAME);
	struct nlattr *index = nlmsg_find_attr(nlmsg_hdr(msg), 0, RDMA_NLDEV_ATTR_DEV_INDEX);
	struct listing *to = arg;
	struct device *more;

	if (!name || !index)
		return NL_OK;
	more = base_grow(to->devices, &to->room, to->count, sizeof(*more));
	if (!more) {
		to->error = -ENOMEM;
		return NL_OK;
	}
	to->devices = more;
	more[to->count] = (struct device){ .index = u32_of(index) };
	snprintf(more[to->count++].name, sizeof(more->name), "%.63s", nla_get_string(name));
	return NL_OK;
}

/* Field 22 of /proc/PID/stat; the name before it may hold spaces and brackets. */
static uint64_t start_of(pid_t pid)
{
	char path[64], line[1024], *at;
	unsigned long long start = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	at = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	fclose(file);
	if (at)
		sscanf(at, ") %*c%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s %llu",
		       &start);
	return start;
}

static void comm_of(pid_t pid, char *comm, size_t size)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	file = fopen(path, "re");
	if (!file)
		return;
	if (!fgets(comm, (int)size, file))
		comm[0] = 0;
	fclose(file);
	comm[strcspn(comm, "\n")] = 0;
	base_make_plain(comm);
}

static void put_line(struct listing *to, struct mrg_cap_mr *mr)
{
	int n;

	if (mr->pid) {
		mr->started = start_of(mr->pid);
		comm_of(mr->pid, mr->comm, sizeof(mr->comm));
	}
	n = snprintf(to->to, to->left, "%s %" PRIu32 " %d %" PRIu64 " %" PRIu64 " %s\n", mr->device,
		     mr->number, mr->pid, mr->started, mr->length, mr->comm);
	if (n < 0 || (size_t)n >= to->left) {
		to->error = -E2BIG;
		return;
	}
	to->to += n;
	to->left -= (size_t)n;
}

/* An MR of the kernel's own has a name and no length. */
static void take_entry(struct listing *to, const char *device, struct nlattr *entry)
{
	struct nlattr *length =
		nla_find(nla_data(entry), nla_len(entry), RDMA_NLDEV_ATTR_RES_MRLEN);
	struct nlattr *number = nla_find(nla_data(entry), nla_len(entry), RDMA_NLDEV_ATTR_RES_MRN);
	struct nlattr *pid = nla_find(nla_data(entry), nla_len(entry), RDMA_NLDEV_ATTR_RES_PID);
	struct mrg_cap_mr mr = { .number = u32_of(number), .pid = (pid_t)u32_of(pid) };

	if (length && nla_len(length) >= (int)sizeof(uint64_t))
		mr.length = nla_get_u64(length);
	if (nla_find(nla_data(entry), nla_len(entry), RDMA_NLDEV_ATTR_RES_KERN_NAME) ||
	    (mr.length && mr.length <= HOST_CAP_MIN_LENGTH))
		return;
	snprintf(mr.device, sizeof(mr.device), "%.63s", device);
	put_line(to, &mr);
}

static int take_mrs(struct nl_msg *msg, void *arg)
{
	struct nlattr *name = nlmsg_find_attr(nlmsg_hdr(msg), 0, RDMA_NLDEV_ATTR_DEV_NAME);
	struct nlattr *mrs = nlmsg_find_attr(nlmsg_hdr(msg), 0, RDMA_NLDEV_ATTR_RES_MR);
	struct nlattr *entry;
	int rest;

	if (name && mrs)
		nla_for_each_nested(entry, mrs, rest) take_entry(arg, nla_get_string(name), entry);
	return NL_OK;
}

static int dump(struct nl_sock *sock, int command, const uint32_t *device)
{
	struct nl_msg *msg =
		nlmsg_alloc_simple(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), NLM_F_DUMP);
	int ret;

	if (!msg)
		return -ENOMEM;
	if (device)
		nla_put_u32(msg, RDMA_NLDEV_ATTR_DEV_INDEX, *device);
	ret = nl_send_auto(sock, msg);
	nlmsg_free(msg);
	if (ret >= 0)
		ret = nl_recvmsgs_default(sock);
	return ret < 0 ? -EIO : 0;
}

static int list_all(struct nl_sock *sock, struct listing *to)
{
	int ret = dump(sock, RDMA_NLDEV_CMD_GET, NULL);

	nl_socket_modify_cb(sock, NL_CB_VALID, NL_CB_CUSTOM, take_mrs, to);
	for (size_t i = 0; !ret && !to->error && i < to->count; i++)
		ret = dump(sock, RDMA_NLDEV_CMD_RES_MR_GET, &to->devices[i].index);
	return ret ? ret : to->error;
}

int host_cap_list(char *buf, size_t cap)
{
	struct listing to = { .to = buf, .left = cap };
	struct nl_sock *sock;
	int ret;

	buf[0] = 0;
	if (access("/sys/class/infiniband", F_OK))
		return 0; /* ib_core is not loaded: no MR */
	sock = nl_socket_alloc();
	if (!sock)
		return -ENOMEM;
	nl_socket_modify_cb(sock, NL_CB_VALID, NL_CB_CUSTOM, take_device, &to);
	ret = nl_connect(sock, NETLINK_RDMA) ? -EIO : list_all(sock, &to);
	nl_socket_free(sock);
	free(to.devices);
	return ret;
}

static bool parse_line(const char *line, struct mrg_cap_mr *mr)
{
	*mr = (struct mrg_cap_mr){ 0 };
	if (sscanf(line, "%63s %" SCNu32 " %d %" SCNu64 " %" SCNu64 " %15[^\n]", mr->device,
		   &mr->number, &mr->pid, &mr->started, &mr->length, mr->comm) < 5)
		return false;
	base_make_plain(mr->device);
	base_make_plain(mr->comm);
	return true;
}

ssize_t host_cap_parse(const char *text, struct mrg_cap_mr **mrs)
{
	struct mrg_cap_mr *list = NULL, *more, mr;
	size_t count = 0, room = 0;

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		if (!parse_line(text, &mr))
			continue;
		more = base_grow(list, &room, count, sizeof(*list));
		if (!more) {
			free(list);
			return -ENOMEM;
		}
		list = more;
		list[count++] = mr;
	}
	*mrs = list;
	return (ssize_t)count;
}
