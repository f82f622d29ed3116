/* SPDX-License-Identifier: MIT */
/*
 * Two connected ends over simnic, for the guest tests of that module: open,
 * connect, post, wait with a bound, and read what debugfs tells.
 *
 * Everything that cannot fail unless the test ground is broken is asserted.
 */
#ifndef SIMNIC_PAIR_H
#define SIMNIC_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAIR_ACCESS                                                                  \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define PAIR_WAIT_MS 10000
#define PAIR_QUIET_MS 200

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_qp *qp;
	union ibv_gid gid;
	uint16_t lid;
	int roce;
};

struct pair {
	struct end a;
	struct end b;
};

/* Zero means the value given here in brackets. */
struct pair_options {
	const char *a; /* device [simnic0] */
	const char *b; /* [a's] */
	int gid_index;
	int qp_access; /* of b [all] */
	int no_rd_atomic;
	uint8_t rnr_retry; /* of a [0: none] */
	uint8_t timeout; /* of a: 4.096 us * 2^timeout [10: 4 ms] */
	uint8_t retry_cnt;
	uint32_t cqe; /* [1024] */
	int signal_all;
};

static inline struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	assert_non_null(list);
	for (int i = 0; list[i] && !context; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (!context)
		print_error("no device %s\n", name);
	assert_non_null(context);
	return context;
}

static inline void end_open(struct end *e, const char *device, const struct pair_options *o)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = o->signal_all,
		.cap = { .max_send_wr = 256,
			 .max_recv_wr = 256,
			 .max_send_sge = 16,
			 .max_recv_sge = 16,
			 .max_inline_data = 256 },
	};
	struct ibv_port_attr port;
	int cqe = o->cqe ? (int)o->cqe : 1024;

	e->context = open_device(device);
	assert_int_equal(ibv_query_port(e->context, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	e->lid = port.lid;
	e->roce = port.link_layer == IBV_LINK_LAYER_ETHERNET;
	assert_int_equal(ibv_query_gid(e->context, 1, o->gid_index, &e->gid), 0);
	e->pd = ibv_alloc_pd(e->context);
	assert_non_null(e->pd);
	e->channel = ibv_create_comp_channel(e->context);
	assert_non_null(e->channel);
	e->send_cq = ibv_create_cq(e->context, cqe, NULL, e->channel, 0);
	e->recv_cq = ibv_create_cq(e->context, cqe, NULL, e->channel, 0);
	assert_non_null(e->send_cq);
	assert_non_null(e->recv_cq);
	init.send_cq = e->send_cq;
	init.recv_cq = e->recv_cq;
	e->qp = ibv_create_qp(e->pd, &init);
	assert_non_null(e->qp);
}

static inline void end_close(struct end *e)
{
	assert_int_equal(ibv_destroy_qp(e->qp), 0);
	assert_int_equal(ibv_destroy_cq(e->send_cq), 0);
	assert_int_equal(ibv_destroy_cq(e->recv_cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(e->channel), 0);
	assert_int_equal(ibv_dealloc_pd(e->pd), 0);
	assert_int_equal(ibv_close_device(e->context), 0);
}

static inline int end_to_init(struct end *e, int access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = (unsigned int)access,
	};

	return ibv_modify_qp(e->qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static inline int end_to_rtr(struct end *e, const struct end *peer, const struct pair_options *o)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp->qp_num,
		.min_rnr_timer = 12,
		.max_dest_rd_atomic = o->no_rd_atomic ? 0 : 4,
		.ah_attr = { .port_num = 1,
			     .dlid = peer->lid,
			     .is_global = peer->roce != 0,
			     .grh = { .dgid = peer->gid,
				      .hop_limit = 1,
				      .sgid_index = (uint8_t)o->gid_index } },
	};

	return ibv_modify_qp(e->qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

static inline int end_to_rts(struct end *e, const struct pair_options *o)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.rnr_retry = o->rnr_retry,
		.retry_cnt = o->retry_cnt,
		.timeout = o->timeout ? o->timeout : 10,
		.max_rd_atomic = 4,
	};

	return ibv_modify_qp(e->qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static inline int end_to_state(struct end *e, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(e->qp, &attr, IBV_QP_STATE);
}

static inline enum ibv_qp_state end_state(struct end *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(e->qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static inline void pair_connect(struct pair *p, const struct pair_options *o)
{
	assert_int_equal(end_to_init(&p->a, PAIR_ACCESS), 0);
	assert_int_equal(end_to_init(&p->b, o->qp_access ? o->qp_access : PAIR_ACCESS), 0);
	assert_int_equal(end_to_rtr(&p->a, &p->b, o), 0);
	assert_int_equal(end_to_rtr(&p->b, &p->a, o), 0);
	assert_int_equal(end_to_rts(&p->a, o), 0);
	assert_int_equal(end_to_rts(&p->b, o), 0);
}

static inline void pair_open(struct pair *p, const struct pair_options *o)
{
	const char *a = o->a ? o->a : "simnic0";

	end_open(&p->a, a, o);
	end_open(&p->b, o->b ? o->b : a, o);
	pair_connect(p, o);
}

static inline void pair_close(struct pair *p)
{
	end_close(&p->a);
	end_close(&p->b);
}

/* ------------------------------------------------------------- requests */

static inline struct ibv_sge sge_of(const struct ibv_mr *mr, uint64_t offset, uint32_t len)
{
	return (struct ibv_sge){ (uintptr_t)mr->addr + offset, len, mr->lkey };
}

/* Where in @mr, which may be NULL for the kinds that have no remote end. */
static inline struct ibv_send_wr request(enum ibv_wr_opcode opcode, struct ibv_sge *sge,
					 const struct ibv_mr *mr, uint64_t offset)
{
	struct ibv_send_wr wr = {
		.wr_id = 0x5151,
		.opcode = opcode,
		.sg_list = sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (mr) {
		wr.wr.rdma.remote_addr = (uintptr_t)mr->addr + offset;
		wr.wr.rdma.rkey = mr->rkey;
	}
	return wr;
}

static inline void post(struct end *e, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(e->qp, wr, &bad), 0);
}

static inline void post_recv(struct end *e, uint64_t id, struct ibv_sge *sge, int n)
{
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = n }, *bad;

	assert_int_equal(ibv_post_recv(e->qp, &wr, &bad), 0);
}

static inline uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* One completion within the time, or 0. */
static inline int poll_for(struct ibv_cq *cq, struct ibv_wc *wc, unsigned int ms)
{
	uint64_t end = now_ms() + ms;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, wc);
		assert_true(n >= 0);
		if (!n)
			usleep(100);
	} while (!n && now_ms() < end);
	return n;
}

static inline struct ibv_wc completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	assert_int_equal(poll_for(cq, &wc, PAIR_WAIT_MS), 1);
	return wc;
}

static inline int is_quiet(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	return !poll_for(cq, &wc, PAIR_QUIET_MS);
}

/* Posts at a and gives the status that comes of it. */
static inline enum ibv_wc_status status_of(struct pair *p, struct ibv_send_wr *wr)
{
	struct ibv_wc wc;

	post(&p->a, wr);
	wc = completion(p->a.send_cq);
	assert_int_equal(wc.wr_id, wr->wr_id);
	assert_int_equal(wc.qp_num, p->a.qp->qp_num);
	return wc.status;
}

#define assert_status(got, want)                                              \
	do {                                                                  \
		enum ibv_wc_status got_ = (got);                              \
		if (got_ != (want))                                           \
			print_error("status: %s\n", ibv_wc_status_str(got_)); \
		assert_int_equal(got_, want);                                 \
	} while (0)

/* --------------------------------------------------------------- memory */

static inline unsigned char *buffer(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static inline struct ibv_mr *reg(struct end *e, void *p, size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(e->pd, p, len, access);

	if (!mr)
		print_error("ibv_reg_mr: %s\n", strerror(errno));
	assert_non_null(mr);
	return mr;
}

/* A pattern whose bytes tell where they come from, as far as a byte can. */
static inline void fill(unsigned char *p, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++) {
		seed = seed * 1664525 + 1013904223;
		p[i] = (unsigned char)(seed >> 24);
	}
}

/* -------------------------------------------------------------- debugfs */

static inline void debugfs_path(char *path, size_t n, const char *device, const char *file)
{
	snprintf(path, n, "/sys/kernel/debug/simnic/%s/%s", device, file);
}

/* A counter of "stats". */
static inline int64_t stat_of(const char *device, const char *name)
{
	char path[128], word[64];
	int64_t value;
	FILE *f;

	debugfs_path(path, sizeof(path), device, "stats");
	f = fopen(path, "r");
	assert_non_null(f);
	while (fscanf(f, "%63s %" SCNd64, word, &value) == 2) {
		if (!strcmp(word, name)) {
			fclose(f);
			return value;
		}
	}
	fail_msg("no counter %s", name);
	return -1;
}

static inline int try_set(const char *device, const char *file, uint64_t value)
{
	char path[128], text[32];
	int fd, n, err = 0;

	debugfs_path(path, sizeof(path), device, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	n = snprintf(text, sizeof(text), "%" PRIu64, value);
	if (write(fd, text, (size_t)n) != n)
		err = -errno;
	close(fd);
	return err;
}

static inline void set(const char *device, const char *file, uint64_t value)
{
	assert_int_equal(try_set(device, file, value), 0);
}

/* What debugfs says of one memory region. */
struct mr_facts {
	unsigned int page_shift;
	uint64_t iova;
	uint64_t nblocks;
	uint64_t nruns;
	uint64_t blocks[64]; /* the first of them */
	uint64_t runs[8][2];
};

/* Takes a line in; false where no more are wanted. */
static inline int mr_facts_line(struct mr_facts *f, const char *line, unsigned int *run)
{
	uint64_t i, x, y;

	if (sscanf(line, "block %" SCNu64 " %" SCNx64, &i, &x) == 2) {
		if (i >= 64)
			return 0;
		f->blocks[i] = x;
	} else if (sscanf(line, "run %" SCNx64 " %" SCNx64, &x, &y) == 2 && *run < 8) {
		f->runs[*run][0] = x;
		f->runs[(*run)++][1] = y;
	} else if (sscanf(line, "page_shift %" SCNu64, &x) == 1) {
		f->page_shift = (unsigned int)x;
	} else if (sscanf(line, "iova %" SCNx64, &x) == 1) {
		f->iova = x;
	} else if (sscanf(line, "blocks %" SCNu64, &x) == 1) {
		f->nblocks = x;
	} else if (sscanf(line, "runs %" SCNu64, &x) == 1) {
		f->nruns = x;
	}
	return 1;
}

static inline struct mr_facts mr_facts(const char *device, const struct ibv_mr *mr)
{
	struct mr_facts f = { 0 };
	char path[128], file[32], line[128];
	unsigned int run = 0;
	FILE *in;

	snprintf(file, sizeof(file), "mr/%x", mr->lkey);
	debugfs_path(path, sizeof(path), device, file);
	in = fopen(path, "r");
	assert_non_null(in);
	while (fgets(line, sizeof(line), in) && mr_facts_line(&f, line, &run))
		;
	fclose(in);
	return f;
}

/* ----------------------------------------------------------------- start */

static inline int load(const char *arguments)
{
	char command[256];

	snprintf(command, sizeof(command), "modprobe %s >&2", arguments);
	return system(command);
}

static inline int unload(const char *module)
{
	char command[256];

	snprintf(command, sizeof(command), "rmmod %s >&2", module);
	return system(command);
}

/* Starts the program anew with the shim, once. */
static inline void preload_shim(char **argv)
{
	const char *build = getenv("MRG_BUILD");
	char path[4096];

	if (getenv("LD_PRELOAD") || !build)
		return;
	snprintf(path, sizeof(path), "%s/tests/vm/shim/simnic-verbs.so", build);
	if (access(path, R_OK)) {
		printf("Bail out! no %s: make guest\n", path);
		exit(1);
	}
	setenv("LD_PRELOAD", path, 1);
	execv("/proc/self/exe", argv);
	exit(127);
}

#endif
