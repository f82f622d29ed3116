/* SPDX-License-Identifier: MIT */
/*
 * DMA-BUF memory regions on simnic, and the control of the whole test ground:
 * on a kernel whose block walk truncates, a plain ibv_reg_dmabuf_mr() of a
 * buffer that agrees with its iova in 32 bits or more writes to the wrong
 * place and says that all is well; on the others it does not.
 *
 * debugfs tells which block list a region has, and the bytes are looked for
 * where that list says, so the test also holds the device to the list.
 */
#include "simnic_pair.h"

#include <stdbool.h>
#include <sys/ioctl.h>

#include "tools/simgpu_spec.h"

#define GIB (1ULL << 30)
#define MAX_BLOCKS 6

/* A buffer that is one run of addresses, and what is to come of it. */
struct row {
	const char *spec;
	uint64_t iova;
	uint64_t length;
	struct {
		unsigned int page_shift;
		uint64_t nblocks;
		uint64_t gib[MAX_BLOCKS]; /* block addresses in GiB */
	} truncating, exact;
};

static bool truncates, translated;

struct region {
	int fd;
	unsigned char *cpu;
	struct ibv_mr *mr;
	uint64_t iova, length;
	struct mr_facts facts;
};

static uint64_t page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static int make(const char *spec)
{
	int fd = simgpu_spec_create(spec);

	if (fd < 0)
		print_error("%s: %s\n", spec, strerror(-fd));
	assert_true(fd >= 0);
	return fd;
}

static struct ibv_mr *reg_dmabuf(struct end *e, int fd, uint64_t offset, uint64_t length,
				 uint64_t iova)
{
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(e->pd, offset, length, iova, fd, PAIR_ACCESS);

	if (!mr)
		print_error("ibv_reg_dmabuf_mr: %s\n", strerror(errno));
	assert_non_null(mr);
	return mr;
}

static struct region region_open(struct end *e, const char *spec, uint64_t length, uint64_t iova)
{
	struct region r = { .iova = iova, .length = length };
	void *p;

	r.fd = make(spec);
	p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, r.fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	r.cpu = p;
	r.mr = reg_dmabuf(e, r.fd, 0, length, iova);
	r.facts = mr_facts("simnic0", r.mr);
	return r;
}

static void region_close(struct region *r)
{
	assert_int_equal(ibv_dereg_mr(r->mr), 0);
	munmap(r->cpu, r->length);
	close(r->fd);
}

/* The offset in the buffer where the block list has the byte at @offset. */
static uint64_t lands_at(const struct region *r, uint64_t offset)
{
	unsigned int shift = r->facts.page_shift;
	uint64_t mask = (1ULL << shift) - 1, addr = r->iova + offset;
	uint64_t block = (addr - (r->iova & ~mask)) >> shift;

	assert_true(block < r->facts.nblocks);
	assert_int_equal(r->facts.nruns, 1);
	return r->facts.blocks[block] + (addr & mask) - r->facts.runs[0][0];
}

struct fixture {
	struct pair pair;
	unsigned char *host;
	struct ibv_mr *hmr;
};

#define HOST_SIZE (1U << 20)

static int open_fixture(void **state)
{
	static const struct pair_options plain;
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	pair_open(&f->pair, &plain);
	f->host = buffer(HOST_SIZE);
	f->hmr = reg(&f->pair.a, f->host, HOST_SIZE, PAIR_ACCESS);
	*state = f;
	return 0;
}

static int close_fixture(void **state)
{
	struct fixture *f = *state;

	ibv_dereg_mr(f->hmr);
	pair_close(&f->pair);
	munmap(f->host, HOST_SIZE);
	free(f);
	return 0;
}

/* One request between the host buffer, at @at, and the region, at @offset. */
static enum ibv_wc_status transfer(struct fixture *f, enum ibv_wr_opcode opcode, uint32_t at,
				   const struct region *r, uint64_t offset, uint32_t len)
{
	struct ibv_sge sge = sge_of(f->hmr, at, len);
	struct ibv_send_wr wr = request(opcode, &sge, NULL, 0);

	wr.wr.rdma.remote_addr = r->iova + offset;
	wr.wr.rdma.rkey = r->mr->rkey;
	return status_of(&f->pair, &wr);
}

/*
 * Writes @len bytes at @offset and finds them where the list says.  The places
 * where they should be and where they will be are made blank before.
 */
static void write_and_find(struct fixture *f, const struct region *r, uint64_t offset, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++) {
		r->cpu[offset + i] = 0;
		r->cpu[lands_at(r, offset + i)] = 0;
	}
	fill(f->host, len, (uint32_t)(offset >> 12) + len);
	for (uint32_t i = 0; i < len; i++)
		f->host[i] |= 1;
	assert_status(transfer(f, IBV_WR_RDMA_WRITE, 0, r, offset, len), IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < len; i++) {
		uint64_t at = lands_at(r, offset + i);

		assert_int_equal(r->cpu[at], f->host[i]);
		if (at != offset + i)
			assert_int_equal(r->cpu[offset + i], 0);
	}
	assert_status(transfer(f, IBV_WR_RDMA_READ, HOST_SIZE / 2, r, offset, len), IBV_WC_SUCCESS);
	assert_int_equal(memcmp(f->host, f->host + HOST_SIZE / 2, len), 0);
}

/* The start, the end, inside of each 4 GiB, across each of its borders. */
static void probe(struct fixture *f, const struct region *r)
{
	write_and_find(f, r, 0, 64);
	write_and_find(f, r, r->length - 1, 1);
	write_and_find(f, r, r->length - 5003, 5003);
	for (uint64_t at = 0; at < r->length; at += 4 * GIB) {
		if (at)
			write_and_find(f, r, at - 33, 70);
		if (at + GIB + 123 + 9001 <= r->length)
			write_and_find(f, r, at + GIB + 123, 9001);
	}
}

static bool all_right(const struct region *r)
{
	for (uint64_t k = 0; k < r->length; k += GIB / 4)
		if (lands_at(r, k) != k)
			return false;
	return lands_at(r, r->length - 1) == r->length - 1;
}

static void row(void **state, const struct row *row)
{
	struct fixture *f = *state;
	struct region r = region_open(&f->pair.b, row->spec, row->length, row->iova);
	const typeof(row->exact) *want = truncates ? &row->truncating : &row->exact;
	/* Behind a translating IOMMU each mapping has a start of its own. */
	uint64_t start = translated ? r.facts.runs[0][0] : 0;

	assert_int_equal(r.facts.page_shift, want->page_shift);
	assert_int_equal(r.facts.nblocks, want->nblocks);
	for (uint64_t i = 0; i < want->nblocks; i++)
		assert_int_equal(r.facts.blocks[i], start + want->gib[i] * GIB);
	if (!truncates)
		assert_true(all_right(&r));
	probe(f, &r);
	region_close(&r);
}

#define ROW(name, ...)                                          \
	static void name(void **state)                          \
	{                                                       \
		static const struct row this = { __VA_ARGS__ }; \
                                                                \
		row(state, &this);                              \
	}

ROW(agreeing_in_32_bits, "12G@4G", 0x700000000000, 12 * GIB, { 32, 3, { 4, 4, 4 } },
    { 32, 3, { 4, 8, 12 } })
ROW(agreeing_in_33_bits, "12G@8G", 0x700000000000, 12 * GIB, { 33, 2, { 8, 8 } },
    { 33, 2, { 8, 16 } })
ROW(start_not_aligned, "12G@0x100010000", 0x700000010000, 12 * GIB, { 32, 4, { 4, 8, 8, 8 } },
    { 32, 4, { 4, 8, 12, 16 } })
ROW(one_page_covers_all, "12G@4G", 0x700100000000, 12 * GIB, { 34, 1, { 0 } }, { 34, 1, { 0 } })
ROW(rebased, "12G@4G", 0x700080000000, 12 * GIB, { 31, 6, { 4, 6, 8, 10, 12, 14 } },
    { 31, 6, { 4, 6, 8, 10, 12, 14 } })
ROW(agreeing_in_30_bits, "6G@13G", 0x700300000000, 6 * GIB, { 30, 6, { 13, 14, 15, 16, 17, 18 } },
    { 30, 6, { 13, 14, 15, 16, 17, 18 } })
ROW(long_entries, "12G@4G,seg=0xffff0000", 0x700000000000, 12 * GIB, { 32, 3, { 4, 4, 4 } },
    { 32, 3, { 4, 8, 12 } })
/* Contiguous behind an IOMMU as well, and there aligned to 16 GiB. */
ROW(mapped_as_a_whole, "12G@4G,whole", 0x700100000000, 12 * GIB, { 32, 3, { 0, 0, 0 } },
    { 32, 3, { 0, 4, 8 } })

static void wrap_goes_unnoticed_exactly_where_the_walk_truncates(void **state)
{
	struct fixture *f = *state;
	struct region r = region_open(&f->pair.b, "12G@4G", 12 * GIB, 0x700000000000);
	unsigned char *one = r.cpu + GIB, *five = r.cpu + 5 * GIB;

	memset(one, 0, 4096);
	memset(five, 0, 4096);
	memset(f->host, 0x77, 4096);
	/* The device says that it went well in both cases. */
	assert_status(transfer(f, IBV_WR_RDMA_WRITE, 0, &r, 5 * GIB, 4096), IBV_WC_SUCCESS);
	assert_int_equal(one[0], truncates ? 0x77 : 0);
	assert_int_equal(one[4095], truncates ? 0x77 : 0);
	assert_int_equal(five[0], truncates ? 0 : 0x77);
	assert_int_equal(five[4095], truncates ? 0 : 0x77);
	region_close(&r);
}

static void wrap_hits_the_local_side_too(void **state)
{
	struct fixture *f = *state;
	struct region r = region_open(&f->pair.b, "12G@4G", 12 * GIB, 0x700000000000);
	struct ibv_sge sge = { r.iova + 5 * GIB, 4096, r.mr->lkey };
	struct ibv_send_wr wr = request(IBV_WR_RDMA_READ, &sge, f->hmr, 0);

	memset(r.cpu + GIB, 0, 4096);
	memset(r.cpu + 5 * GIB, 0, 4096);
	memset(f->host, 0x66, 4096);
	post(&f->pair.b, &wr);
	assert_status(completion(f->pair.b.send_cq).status, IBV_WC_SUCCESS);
	assert_int_equal(r.cpu[GIB + 99], truncates ? 0x66 : 0);
	assert_int_equal(r.cpu[5 * GIB + 99], truncates ? 0 : 0x66);
	region_close(&r);
}

static void a_limit_of_2_gib_pages_never_wraps(void **state)
{
	struct fixture *f = *state;
	struct region r;

	set("simnic0", "max_page_shift", 31);
	r = region_open(&f->pair.b, "12G@4G", 12 * GIB, 0x700000000000);
	set("simnic0", "max_page_shift", 63);
	assert_int_equal(r.facts.page_shift, 31);
	assert_int_equal(r.facts.nblocks, 6);
	for (uint64_t i = 0; i < 6; i++)
		assert_int_equal(r.facts.blocks[i], 4 * GIB + i * 2 * GIB);
	probe(f, &r);
	region_close(&r);
}

/* Writes 64 bytes at an offset of the region and looks for them in @cpu. */
static void write_lands(struct fixture *f, uint64_t iova, uint32_t rkey, const unsigned char *cpu,
			unsigned char value)
{
	struct ibv_sge sge = sge_of(f->hmr, 0, 64);
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge, NULL, 0);

	memset(f->host, value, 64);
	wr.wr.rdma.remote_addr = iova;
	wr.wr.rdma.rkey = rkey;
	assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
	assert_int_equal(cpu[0], value);
	assert_int_equal(cpu[63], value);
}

static void pieces_of_2_gib_never_wrap(void **state)
{
	struct fixture *f = *state;
	int fd = make("12G@4G");
	unsigned char *cpu = mmap(NULL, 12 * GIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(cpu, MAP_FAILED);
	for (uint64_t i = 0; i < 6; i++) {
		uint64_t at = i * 2 * GIB, iova = 0x700000000000 + at;
		struct ibv_mr *mr = reg_dmabuf(&f->pair.b, fd, at, 2 * GIB, iova);

		write_lands(f, iova, mr->rkey, cpu + at, (unsigned char)(i + 1));
		write_lands(f, iova + 2 * GIB - 64, mr->rkey, cpu + at + 2 * GIB - 64,
			    (unsigned char)(i + 100));
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	munmap(cpu, 12 * GIB);
	close(fd);
}

/* Mapped one by one behind an IOMMU, each entry lies below the one before. */
static void entries_mapped_one_by_one_do_not_wrap(void **state)
{
	struct fixture *f = *state;
	struct region r = region_open(&f->pair.b, "12G@4G", 12 * GIB, 0x700000000000);

	assert_int_equal(r.facts.page_shift, 31);
	assert_int_equal(r.facts.blocks[1], r.facts.blocks[0] - 2 * GIB);
	for (uint64_t at = 0; at < 12 * GIB; at += GIB + 4096 * 3)
		write_lands(f, r.iova + at, r.mr->rkey, r.cpu + at, (unsigned char)(at >> 12));
	region_close(&r);
}

static void runs_out_of_order_are_followed(void **state)
{
	struct fixture *f = *state;
	int fd = make("3G@10G+2G@4G+1G@8G,seg=1G");
	unsigned char *cpu = mmap(NULL, 6 * GIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	uint64_t iova = 0x712345670000;
	struct ibv_mr *mr = reg_dmabuf(&f->pair.b, fd, 0, 6 * GIB, iova);

	assert_ptr_not_equal(cpu, MAP_FAILED);
	for (uint64_t i = 0; i < 12; i++) {
		uint64_t at = i * GIB / 2 + 4096 * i;

		write_lands(f, iova + at, mr->rkey, cpu + at, (unsigned char)(i + 1));
		if (at)
			write_lands(f, iova + at - 32, mr->rkey, cpu + at - 32,
				    (unsigned char)(i + 50));
	}
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(cpu, 6 * GIB);
	close(fd);
}

static void an_offset_in_the_dmabuf_is_kept(void **state)
{
	struct fixture *f = *state;
	int fd = make("1G@6G");
	unsigned char *cpu = mmap(NULL, GIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	uint64_t offset = 0x12345, iova = 0x700000002345, length = 0x765432;
	struct ibv_mr *mr = reg_dmabuf(&f->pair.b, fd, offset, length, iova);

	assert_ptr_not_equal(cpu, MAP_FAILED);
	write_lands(f, iova, mr->rkey, cpu + offset, 1);
	write_lands(f, iova + length - 64, mr->rkey, cpu + offset + length - 64, 2);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	/* The page offsets of both have to agree, says the core. */
	assert_null(ibv_reg_dmabuf_mr(f->pair.b.pd, offset, length, iova + 1, fd, PAIR_ACCESS));
	assert_int_equal(errno, EINVAL);
	munmap(cpu, GIB);
	close(fd);
}

static void a_range_past_the_end_is_refused(void **state)
{
	struct fixture *f = *state;
	int fd = make("1G@6G");

	assert_null(ibv_reg_dmabuf_mr(f->pair.b.pd, GIB - page_size(), 2 * page_size(),
				      0x700000000000, fd, PAIR_ACCESS));
	assert_int_equal(errno, EINVAL);
	close(fd);
}

/* ----------------------------------------------------------------- strays */

static int64_t strays(void)
{
	return stat_of("simnic0", "strays");
}

/* Invented addresses, with no memory behind them. */
static struct ibv_mr *nowhere(struct fixture *f, int *fd)
{
	*fd = make("1G@64G,fake");
	return reg_dmabuf(&f->pair.b, *fd, 0, GIB, 0x700000000000);
}

static void a_remote_address_that_leads_nowhere_is_an_error(void **state)
{
	struct fixture *f = *state;
	int64_t before = strays();
	struct region r = { .iova = 0x700000000000 };

	r.mr = nowhere(f, &r.fd);
	assert_status(transfer(f, IBV_WR_RDMA_WRITE, 0, &r, 4096, 64), IBV_WC_REM_OP_ERR);
	assert_true(strays() > before);
	ibv_dereg_mr(r.mr);
	close(r.fd);
}

static void a_local_address_that_leads_nowhere_is_an_error(void **state)
{
	struct fixture *f = *state;
	int fd;
	struct ibv_mr *mr = nowhere(f, &fd);
	struct ibv_sge sge = { 0x700000000000, 64, mr->lkey };
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge, f->hmr, 0);

	post(&f->pair.b, &wr);
	assert_status(completion(f->pair.b.send_cq).status, IBV_WC_LOC_ACCESS_ERR);
	ibv_dereg_mr(mr);
	close(fd);
}

static void strays_can_be_absorbed(void **state)
{
	struct fixture *f = *state;
	struct region r = { .iova = 0x700000000000 };
	int64_t before = strays();

	r.mr = nowhere(f, &r.fd);
	set("simnic0", "absorb_strays", 1);
	memset(f->host, 0x11, 8192);
	assert_status(transfer(f, IBV_WR_RDMA_WRITE, 0, &r, 4096, 64), IBV_WC_SUCCESS);
	assert_status(transfer(f, IBV_WR_RDMA_READ, 0, &r, 4096, 5000), IBV_WC_SUCCESS);
	set("simnic0", "absorb_strays", 0);
	for (int i = 0; i < 5000; i++)
		assert_int_equal(f->host[i], 0xa5);
	assert_int_equal(f->host[5000], 0x11);
	assert_true(strays() > before);
	ibv_dereg_mr(r.mr);
	close(r.fd);
}

/* Pages of 8 GiB at 4 GiB: where the walk truncates, block 1 is address 0. */
static void a_wrong_block_outside_of_the_buffer_writes_nothing(void **state)
{
	struct fixture *f = *state;
	struct region r = region_open(&f->pair.b, "12G@4G", 12 * GIB, 0x700300000000);
	enum ibv_wc_status want = truncates ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS;

	assert_int_equal(r.facts.page_shift, 33);
	assert_int_equal(r.facts.blocks[1], truncates ? 0 : 8 * GIB);
	assert_status(transfer(f, IBV_WR_RDMA_WRITE, 0, &r, 5 * GIB, 64), want);
	region_close(&r);
}

/* ------------------------------------------------------------- other sorts */

/* From the exporter's head, which libc does not have. */
struct udmabuf_request {
	uint32_t memfd;
	uint32_t flags;
	uint64_t offset;
	uint64_t size;
};
#define UDMABUF_REQUEST_CREATE _IOW('u', 0x42, struct udmabuf_request)

static int udmabuf(size_t size, unsigned char **cpu)
{
	int memfd = memfd_create("udmabuf", MFD_ALLOW_SEALING), dev, fd;
	struct udmabuf_request arg = { .memfd = (uint32_t)memfd, .size = size };

	load("-q udmabuf");
	dev = open("/dev/udmabuf", O_RDWR);
	assert_true(dev >= 0);
	assert_int_equal(ftruncate(memfd, (off_t)size), 0);
	assert_int_equal(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	fd = ioctl(dev, UDMABUF_REQUEST_CREATE, &arg);
	assert_true(fd >= 0);
	*cpu = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	close(dev);
	close(memfd);
	return fd;
}

static void pages_of_a_memfd_are_reached(void **state)
{
	struct fixture *f = *state;
	size_t size = 4U << 20;
	uint64_t iova = 0x700000000000;
	unsigned char *cpu;
	struct ibv_mr *mr;
	int fd = udmabuf(size, &cpu);

	mr = reg_dmabuf(&f->pair.b, fd, 0, size, iova);
	for (size_t at = 0; at + 64 < size; at += 70001)
		write_lands(f, iova + at, mr->rkey, cpu + at, (unsigned char)(at >> 12));
	ibv_dereg_mr(mr);
	munmap(cpu, size);
	close(fd);
}

/* A page between address and iova: as many blocks as it gets. */
static void a_block_for_each_page_is_kept(void **state)
{
	struct fixture *f = *state;
	struct region r = region_open(&f->pair.b, "12G@4G", 12 * GIB, 0x700000000000 + page_size());

	assert_int_equal(1ULL << r.facts.page_shift, page_size());
	assert_int_equal(r.facts.nblocks, 12 * GIB / page_size());
	assert_status(transfer(f, IBV_WR_RDMA_WRITE, 0, &r, 7 * GIB + 11, 9000), IBV_WC_SUCCESS);
	assert_int_equal(memcmp(r.cpu + 7 * GIB + 11, f->host, 9000), 0);
	region_close(&r);
}

#define IS(name, test)                                        \
	{                                                     \
		name, test, open_fixture, close_fixture, NULL \
	}

/* On all machines. */
#define COMMON                                                                           \
	IS("in pieces of 2 GiB nothing wraps", pieces_of_2_gib_never_wrap),              \
		IS("runs out of order are followed", runs_out_of_order_are_followed),    \
		IS("an offset in the DMA-BUF is kept", an_offset_in_the_dmabuf_is_kept), \
		IS("a range past the end is refused", a_range_past_the_end_is_refused),  \
		IS("a remote address that leads nowhere is an error",                    \
		   a_remote_address_that_leads_nowhere_is_an_error),                     \
		IS("a local address that leads nowhere is an error",                     \
		   a_local_address_that_leads_nowhere_is_an_error),                      \
		IS("addresses that lead nowhere can be absorbed",                        \
		   strays_can_be_absorbed), /* The last one: main() may leave it out. */ \
		IS("the pages of a memfd are reached through udmabuf",                   \
		   pages_of_a_memfd_are_reached)

static const struct CMUnitTest direct[] = {
	IS("address and iova agree in 32 bits: blocks and bytes", agreeing_in_32_bits),
	IS("... in 33 bits", agreeing_in_33_bits),
	IS("... in 32 bits, 64 KiB past the border", start_not_aligned),
	IS("... and one page covers all", one_page_covers_all),
	IS("... in 31 bits, rebased", rebased),
	IS("... in 30 bits", agreeing_in_30_bits),
	IS("... in 32 bits, in entries of 4 GiB less 64 KiB", long_entries),
	IS("a write goes to the wrong place unnoticed exactly where the walk truncates",
	   wrap_goes_unnoticed_exactly_where_the_walk_truncates),
	IS("... and so does a read into the local side", wrap_hits_the_local_side_too),
	IS("with pages of at most 2 GiB nothing wraps", a_limit_of_2_gib_pages_never_wraps),
	IS("a wrong block outside of the buffer writes nothing",
	   a_wrong_block_outside_of_the_buffer_writes_nothing),
	IS("a block for each page is kept", a_block_for_each_page_is_kept),
	COMMON,
};

static const struct CMUnitTest behind_iommu[] = {
	IS("a buffer mapped as a whole wraps exactly where the walk truncates", mapped_as_a_whole),
	IS("entries mapped one by one do not wrap", entries_mapped_one_by_one_do_not_wrap),
	COMMON,
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

int main(int argc, char **argv)
{
	const char *walk = getenv("MRG_WALK"), *machine = getenv("MRG_MACHINE");
	/* Debian builds udmabuf from 6.12 on. */
	size_t none = !strncmp(getenv("MRG_KERNEL"), "6.1.", 4);
	int failed;

	(void)argc;
	preload_shim(argv);
	truncates = walk && !strcmp(walk, "truncating");
	translated = machine && !strcmp(machine, "iommu");
	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (load("simgpu") || load("simnic")) {
		printf("Bail out! simgpu or simnic does not load\n");
		return 1;
	}
	if (translated)
		failed = _cmocka_run_group_tests("behind an IOMMU", behind_iommu,
						 COUNT(behind_iommu) - none, NULL, NULL);
	else
		failed =
			_cmocka_run_group_tests("direct", direct, COUNT(direct) - none, NULL, NULL);
	failed += unload("simnic") != 0;
	failed += unload("simgpu") != 0;
	return failed != 0;
}
