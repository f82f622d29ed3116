/* SPDX-License-Identifier: MIT */
/* Publishing: what may be shared, its token, and withdrawing it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "share/handle.h"

/* ---- refusals ---- */

static int refuse_kind(struct mrg_share *share, const struct mrg_mem *mem, uint64_t addr)
{
	const char *remedy = "";

	switch (mem->kind) {
	case MRG_MEM_CUDA:
	case MRG_MEM_HIP:
	case MRG_MEM_CUDA_VMM:
	case MRG_MEM_HIP_VMM:
		return 0;
	case MRG_MEM_UNKNOWN:
		return base_fail(share->error_owner, -EFAULT, "check range",
				 "Publish mapped memory.", "Nothing is mapped at 0x%" PRIx64 ".",
				 addr);
	case MRG_MEM_CUDA_POOL:
		remedy =
			"Allocate with cudaMalloc(), or with cuMemCreate() and a POSIX file descriptor handle type; with PyTorch, use backend:native.";
		break;
	case MRG_MEM_CUDA_MANAGED:
	case MRG_MEM_HIP_MANAGED:
		remedy = "Allocate with cudaMalloc() or hipMalloc().";
		break;
	default:
		remedy = "Put host memory into a memfd and use mrg_share_publish_memfds().";
	}
	return base_fail(share->error_owner, -EOPNOTSUPP, "check kind", remedy,
			 "The memory at 0x%" PRIx64
			 " is of the kind \"%s\", which cannot be shared by this call.",
			 addr, mrg_mem_kind_name(mem->kind));
}

static int refuse_chunk(struct mrg_share *share, const struct mrg_mem_chunk *c, size_t index)
{
	if (c->imported)
		return base_fail_piece(
			share->error_owner, -EOPNOTSUPP, (int)index, "check chunks",
			"Let the process that allocated it publish it.",
			"Chunk %zu at 0x%" PRIx64
			" was imported from another process, and the driver exports it no further.",
			index, c->addr);
	if (c->handle_types & MRG_HANDLE_FABRIC)
		return base_fail_piece(
			share->error_owner, -EPERM, (int)index, "check chunks",
			"Create it with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR too; PyTorch asks for fabric handles alone where there are any: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False, whose memory is shared by IPC handle.",
			"Chunk %zu at 0x%" PRIx64
			" allows fabric handles only, and no file descriptors.",
			index, c->addr);
	return base_fail_piece(
		share->error_owner, -EPERM, (int)index, "check chunks",
		"Create it with requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; with PyTorch, do not set TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC=0, and use 2.5 or newer.",
		"Chunk %zu at 0x%" PRIx64
		" was allocated without a shareable handle type, which cannot be added afterwards.",
		index, c->addr);
}

static int check_chunks(struct mrg_share *share, const struct mrg_mem *mem)
{
	for (size_t i = 0; i < mem->count; i++) {
		const struct mrg_mem_chunk *c = &mem->chunks[i];

		if (c->device != mem->device)
			return base_fail_piece(share->error_owner, -EXDEV, (int)i, "check chunks",
					       "Publish each device's part by itself.",
					       "The range lies on device %d, and from 0x%" PRIx64
					       " on device %d.",
					       mem->device, c->addr, c->device);
		if (c->imported || !(c->handle_types & MRG_HANDLE_POSIX_FD))
			return refuse_chunk(share, c, i);
	}
	if (mem->device < 0)
		return base_fail(share->error_owner, -EOPNOTSUPP, "check chunks",
				 "Put host memory into a memfd and use mrg_share_publish_memfds().",
				 "The VMM memory at 0x%" PRIx64 " lies in the host's memory.",
				 mem->base);
	return 0;
}

static int check_bounds(struct mrg_share *share, const struct mrg_mem *mem, uint64_t addr,
			uint64_t length)
{
	if (mem->hole && mem->chunks)
		return base_fail(
			share->error_owner, -EFAULT, "check range",
			"Publish the mapped parts one by one; PyTorch's segments get holes when their cache is emptied.",
			"Nothing is mapped at 0x%" PRIx64 ", %" PRIu64 " bytes into the range.",
			mem->hole, mem->hole - addr);
	if (mem->hole)
		return base_fail(share->error_owner, -ERANGE, "check range",
				 "Publish each allocation by itself.",
				 "The allocation at 0x%" PRIx64 " has %" PRIu64
				 " bytes, and the range ends %" PRIu64 " bytes past it.",
				 mem->base, mem->size, addr + length - (mem->base + mem->size));
	if (!mem->base)
		return base_fail(share->error_owner, -EIO, "check range",
				 "Update the GPU's driver.",
				 "The driver reports no bounds of the memory at 0x%" PRIx64 ".",
				 addr);
	return 0;
}

static int vet(struct mrg_share *share, const struct mrg_mem *mem, uint64_t addr, uint64_t length)
{
	int ret = refuse_kind(share, mem, addr);

	if (!ret)
		ret = check_bounds(share, mem, addr, length);
	if (!ret && mem->chunks && share->no_vmm)
		ret = base_fail(share->error_owner, -EOPNOTSUPP, "check kind",
				"Unset MRGUARD_SHARE_VMM.",
				"Sharing of VMM memory is turned off by MRGUARD_SHARE_VMM=0.");
	return ret ? ret : check_chunks(share, mem);
}

/* ---- ranges ---- */

/* Equal neighbours become one run: 1,500 chunks of a cache are mostly one. */
static size_t make_runs(const struct mrg_range *range, struct share_run *runs)
{
	size_t count = 0;

	for (size_t i = 0; i < range->count; i++) {
		if (count && runs[count - 1].size == range->pieces[i].size) {
			runs[count - 1].count++;
			continue;
		}
		runs[count].size = range->pieces[i].size;
		runs[count++].count = 1;
	}
	return count;
}

static int describe(struct mrg_range *range, const uint8_t device[16])
{
	const struct share_address *at = share_served_at(range->share);
	struct share_token token = {
		.kind = range->kind,
		.generation = range->generation,
		.netns = range->share->netns,
		.owner = range->share->owner,
		.addr = range->addr,
		.skip = range->skip,
		.length = range->length,
		.name_length = at->length,
	};
	ssize_t bytes;

	memcpy(token.secret, range->secret, sizeof(token.secret));
	memcpy(token.boot, range->share->boot, sizeof(token.boot));
	memcpy(token.name, at->name, at->length);
	if (device)
		memcpy(token.device, device, sizeof(token.device));
	token.runs = calloc(range->count, sizeof(*token.runs));
	if (!token.runs)
		return -ENOMEM;
	token.run_count = make_runs(range, token.runs);
	bytes = share_token_encode(&token, &range->token);
	free(token.runs);
	if (bytes < 0)
		return (int)bytes;
	range->token_bytes = (size_t)bytes;
	return 0;
}

static bool is_same(const struct mrg_range *a, const struct mrg_range *b)
{
	if (a->kind != b->kind || a->addr != b->addr || a->length != b->length ||
	    a->count != b->count || a->kind == SHARE_HOST)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!a->pieces[i].id || a->pieces[i].id != b->pieces[i].id ||
		    a->pieces[i].size != b->pieces[i].size)
			return false;
	return true;
}

static struct mrg_range *find_same(const struct mrg_share *share, const struct mrg_range *range)
{
	struct mrg_range *r;

	SLIST_FOREACH(r, &share->ranges, next)
		if (r->published && is_same(r, range))
			return r;
	return NULL;
}

static int enlist(struct mrg_share *share, struct mrg_range *range, const uint8_t device[16])
{
	int ret = share_serve(share);

	if (ret)
		return ret;
	if (share_random(&range->generation, sizeof(range->generation)) ||
	    share_random(range->secret, sizeof(range->secret)))
		return -EIO;
	ret = describe(range, device);
	if (ret)
		return ret;
	SLIST_INSERT_HEAD(&share->ranges, range, next);
	return 0;
}

/* Whoever may write there may put a socket of their own in the place of ours. */
static int check_dir(struct mrg_share *share)
{
	struct stat st;

	if (!share->dir || stat(share->dir, &st) || !(st.st_mode & S_IWOTH) || st.st_mode & S_ISVTX)
		return 0;
	return base_fail(
		share->error_owner, -EPERM, "start server",
		"Set the sticky bit (chmod +t), or use a directory of this user alone.",
		"All users may replace files in the directory for sockets, %s (mode %04o).",
		share->dir, (unsigned int)st.st_mode & 07777);
}

/* Takes @range over. */
static int publish(struct mrg_share *share, struct mrg_range *range, const uint8_t device[16],
		   struct mrg_range **out)
{
	struct mrg_range *same;
	int ret = check_dir(share);

	if (ret) {
		share_range_free(range);
		return ret;
	}
	pthread_mutex_lock(&share->lock);
	same = find_same(share, range);
	if (same)
		same->published++;
	else
		ret = enlist(share, range, device);
	pthread_mutex_unlock(&share->lock);
	if (same || ret)
		share_range_free(range);
	if (ret)
		return base_fail(
			share->error_owner, ret, "start server",
			"See MRGUARD_SHARE_DIR, the limit of file descriptors, and memory.",
			"The server cannot be set up: %s.", strerror(-ret));
	*out = same ? same : range;
	return 0;
}

static enum share_kind kind_of(const struct mrg_mem *mem)
{
	switch (mem->kind) {
	case MRG_MEM_CUDA_VMM:
		return SHARE_CUDA_VMM;
	case MRG_MEM_HIP_VMM:
		return SHARE_HIP_VMM;
	case MRG_MEM_HIP:
		return SHARE_HIP_IPC;
	default:
		return SHARE_CUDA_IPC;
	}
}

static struct mrg_range *gpu_range(struct mrg_share *share, const struct mrg_mem *mem,
				   uint64_t addr, uint64_t length)
{
	size_t count = mem->chunks ? mem->count : 1;
	struct mrg_range *range = share_range_new(share, count);

	if (!range)
		return NULL;
	range->kind = kind_of(mem);
	range->device = mem->device;
	range->addr = addr;
	range->length = length;
	range->skip = addr - mem->base;
	range->pieces[0].addr = mem->base;
	range->pieces[0].size = mem->size;
	range->pieces[0].id = mem->id;
	for (size_t i = 0; i < mem->count; i++) {
		range->pieces[i].addr = mem->chunks[i].addr;
		range->pieces[i].size = mem->chunks[i].size;
		range->pieces[i].id = mem->chunks[i].id;
	}
	return range;
}

int mrg_share_publish(struct mrg_share *share, uint64_t addr, uint64_t length,
		      struct mrg_range **out)
{
	struct gpu_ipc_handle handle;
	struct mrg_range *range = NULL;
	struct mrg_mem mem;
	int ret = share_check(share);

	if (ret)
		return ret;
	if (!share->gpu)
		return base_fail(share->error_owner, -EINVAL, "check range",
				 "Pass a GPU handle to mrg_share_open().",
				 "The handle was opened without a GPU handle.");
	ret = mrg_gpu_classify(share->gpu, addr, length, &mem);
	if (ret) {
		mrg_private_error_move(share->gpu->error_owner, share->error_owner);
		return ret;
	}
	ret = vet(share, &mem, addr, length);
	if (!ret) {
		range = gpu_range(share, &mem, addr, length);
		if (!range)
			ret = base_fail(share->error_owner, -ENOMEM, "publish", "",
					"No memory is left for the range.");
		/* Told here and not to a peer later.  ROCm is not asked ahead: an
		 * export there is not without effects. */
		else if (range->kind == SHARE_CUDA_IPC)
			ret = share_range_handle(range, &handle);
	}
	if (ret && range)
		share_range_free(range);
	if (!ret)
		ret = publish(share, range, mem.uuid, out);
	mrg_mem_release(&mem);
	return ret;
}

/* ---- host memory ---- */

static int check_memfd(struct mrg_share *share, const struct mrg_memfd *m, size_t index)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int seals = fcntl(m->fd, F_GET_SEALS);
	struct stat st;

	if (m->reserved[0] || m->reserved[1])
		return base_fail_piece(share->error_owner, -EINVAL, (int)index, "check memfd",
				       "Zero the structure before it is filled in.",
				       "Reserved fields of stretch %zu are not zero.", index);
	if (seals < 0 || fstat(m->fd, &st))
		return base_fail_piece(share->error_owner, -EINVAL, (int)index, "check memfd",
				       "Use memfd_create() with MFD_ALLOW_SEALING.",
				       "File descriptor %d of stretch %zu is not a memfd.", m->fd,
				       index);
	if (!(seals & F_SEAL_SHRINK))
		return base_fail_piece(
			share->error_owner, -EPERM, (int)index, "check memfd",
			"Call fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK).",
			"The memfd of stretch %zu can be shortened, which would end a peer with SIGBUS.",
			index);
	if (!m->length || m->offset % page || m->length % page ||
	    m->offset > (uint64_t)st.st_size || m->length > (uint64_t)st.st_size - m->offset)
		return base_fail_piece(
			share->error_owner, -EINVAL, (int)index, "check memfd",
			"Use an offset and a length that are multiples of the page size, within the file.",
			"Stretch %zu (offset %" PRIu64 ", %" PRIu64
			" bytes) is not whole pages within the file of %" PRIu64 " bytes.",
			index, m->offset, m->length, (uint64_t)st.st_size);
	return 0;
}

static int check_memfds(struct mrg_share *share, const struct mrg_memfd *fds, size_t count)
{
	uint64_t total = 0;

	if (!count || count > SHARE_MAX_CHUNKS)
		return base_fail(share->error_owner, count ? -E2BIG : -EINVAL, "check memfd",
				 "Share them in several ranges.",
				 "The call has %zu stretches, and 1 to %u can be shared.", count,
				 SHARE_MAX_CHUNKS);
	for (size_t i = 0; i < count; i++) {
		int ret = check_memfd(share, &fds[i], i);

		if (ret)
			return ret;
		if (fds[i].length > SHARE_MAX_BYTES - total)
			return base_fail(share->error_owner, -E2BIG, "check memfd",
					 "Share them in several ranges.",
					 "The stretches are together larger than %llu bytes.",
					 SHARE_MAX_BYTES);
		total += fds[i].length;
	}
	return 0;
}

/* Stretches of one memfd share one descriptor, however many they are. */
static int keep_memfd(struct mrg_range *range, const struct mrg_memfd *fds, size_t i)
{
	struct share_piece *piece = &range->pieces[i];

	piece->size = fds[i].length;
	piece->offset = fds[i].offset;
	range->length += fds[i].length;
	if (i && fds[i].fd == fds[i - 1].fd)
		return 0;
	piece->fd = fcntl(fds[i].fd, F_DUPFD_CLOEXEC, 3);
	return piece->fd < 0 ? -errno : 0;
}

int mrg_share_publish_memfds(struct mrg_share *share, const struct mrg_memfd *fds, size_t count,
			     struct mrg_range **out)
{
	struct mrg_range *range;
	int ret = share_check(share);

	if (!ret)
		ret = check_memfds(share, fds, count);
	if (ret)
		return ret;
	range = share_range_new(share, count);
	if (!range)
		return base_fail(share->error_owner, -ENOMEM, "publish", "",
				 "No memory is left for the range.");
	range->kind = SHARE_HOST;
	range->device = -1;
	for (size_t i = 0; i < count && !ret; i++)
		ret = keep_memfd(range, fds, i);
	if (ret) {
		share_range_free(range);
		return base_fail(share->error_owner, ret, "publish", "Raise the limit (ulimit -n).",
				 "A file descriptor cannot be duplicated: %s.", strerror(-ret));
	}
	return publish(share, range, NULL, out);
}

/* ---- withdrawing ---- */

void mrg_share_unpublish(struct mrg_range *range)
{
	struct mrg_share *share;
	bool last, idle;

	if (!range || share_check(range->share))
		return;
	share = range->share;
	pthread_mutex_lock(&share->lock);
	last = !--range->published;
	if (last)
		SLIST_REMOVE(&share->ranges, range, mrg_range, next);
	pthread_mutex_unlock(&share->lock);
	if (!last)
		return;
	/* The server may be in the middle of it: taking the lock waits for that. */
	pthread_mutex_lock(&range->lock);
	range->withdrawn = true;
	pthread_mutex_unlock(&range->lock);
	pthread_mutex_lock(&share->lock);
	idle = !range->clients;
	range->share = NULL; /* the last client frees it */
	pthread_mutex_unlock(&share->lock);
	if (idle)
		share_range_free(range);
}

size_t mrg_range_token(const struct mrg_range *range, const void **bytes)
{
	*bytes = range->token;
	return range->token_bytes;
}

uint64_t mrg_range_generation(const struct mrg_range *range)
{
	return range->generation;
}
