/* SPDX-License-Identifier: MIT */
/* Imported ranges: mappings, shared by all imports of one generation. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/opts.h"
#include "share/handle.h"

enum mapping_state { MAPPING_MAKING, MAPPING_READY };

struct share_mapping {
	struct share_mapping *next;
	struct mrg_share *share;
	enum mapping_state state;
	unsigned int users;
	/* what it is of */
	struct share_descriptor desc;
	int32_t device;
	uint32_t flags;
	/* where it is */
	uint64_t addr;
	uint64_t filled; /* host */
	struct gpu_window window;
	int ipc_device;
	unsigned int devices;
};

struct mrg_import {
	struct share_mapping *mapping;
	uint64_t addr;
	uint64_t length;
};

/* A failure in lib/gpu is the share handle's as well. */
static int adopt(struct mrg_share *share, int ret)
{
	if (ret < 0)
		mrg_private_error_move(share->gpu->error_owner, share->error_owner);
	return ret;
}

/* ---- host memory ---- */

static int host_open(struct share_mapping *m)
{
	void *p = mmap(NULL, m->desc.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1, 0);

	if (p == MAP_FAILED)
		return base_fail(m->share->error_owner, -ENOMEM, "reserve", "",
				 "no address space for %" PRIu64 " bytes", m->desc.bytes);
	m->addr = (uint64_t)(uintptr_t)p;
	return 0;
}

/* The owner cannot make the mapping end in SIGBUS: it is whole pages of a file
 * that cannot shrink. */
static bool good_file(int fd, uint64_t size, uint64_t offset)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, &st) && size % page == 0 &&
	       offset % page == 0 && offset <= (uint64_t)st.st_size &&
	       size <= (uint64_t)st.st_size - offset;
}

static int host_chunk(void *to, int fd, uint64_t size, uint64_t offset)
{
	struct share_mapping *m = to;
	int ret = 0;
	void *p;

	if (!good_file(fd, size, offset)) {
		ret = base_fail(m->share->error_owner, -EPROTO, "map chunk", "",
				"the owner sent a descriptor that is no sealed memfd of %" PRIu64
				" bytes",
				size);
	} else {
		p = mmap((void *)(uintptr_t)(m->addr + m->filled), size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, fd, (off_t)offset);
		if (p == MAP_FAILED)
			ret = base_fail(m->share->error_owner, -errno, "map chunk",
					"see vm.max_map_count",
					"a chunk of %" PRIu64 " bytes cannot be mapped: %s", size,
					strerror(errno));
	}
	close(fd);
	m->filled += ret ? 0 : size;
	return ret;
}

static int host_settle(void *to)
{
	(void)to;
	return 0;
}

/* ---- GPU memory ---- */

static int gpu_open(struct share_mapping *m)
{
	uint64_t granule;
	int ret;

	ret = gpu_window_open(m->share->gpu, share_vendor(m->desc.kind), m->desc.device, m->device,
			      m->desc.bytes, &m->window);
	if (ret)
		return adopt(m->share, ret);
	ret = gpu_window_granule(&m->window, &granule);
	if (ret)
		return adopt(m->share, ret);
	m->addr = m->window.addr;
	for (size_t i = 0; i < m->desc.run_count; i++)
		if (m->desc.runs[i].size % granule)
			return base_fail(m->share->error_owner, -EBADMSG, "reserve", "",
					 "chunks of %" PRIu64
					 " bytes are no multiples of this GPU's %" PRIu64,
					 m->desc.runs[i].size, granule);
	return 0;
}

static int gpu_chunk(void *to, int fd, uint64_t size, uint64_t offset)
{
	struct share_mapping *m = to;

	(void)offset;
	return adopt(m->share, gpu_window_add(&m->window, fd, size));
}

static int gpu_settle(void *to)
{
	struct share_mapping *m = to;

	return adopt(m->share, gpu_window_settle(&m->window));
}

static int ipc_handle(void *to, const uint8_t bytes[SHARE_IPC])
{
	struct share_mapping *m = to;
	struct gpu_ipc_handle handle;

	memcpy(handle.bytes, bytes, sizeof(handle.bytes));
	return adopt(m->share, gpu_ipc_import(m->share->gpu, share_vendor(m->desc.kind),
					      m->desc.device, &handle, &m->ipc_device, &m->addr));
}

/* ---- mappings ---- */

static int open_mapping(struct share_mapping *m)
{
	if (m->desc.kind == SHARE_HOST)
		return host_open(m);
	return share_is_vmm(m->desc.kind) ? gpu_open(m) : 0;
}

static void finish_mapping(struct share_mapping *m)
{
	if (share_is_ipc(m->desc.kind))
		m->devices = 1;
	if (share_is_vmm(m->desc.kind))
		m->devices = (unsigned int)gpu_window_finish(&m->window,
							     m->flags & MRG_IMPORT_ALL_DEVICES);
}

static void close_mapping(struct share_mapping *m)
{
	if (m->desc.kind == SHARE_HOST && m->addr)
		munmap((void *)(uintptr_t)m->addr, m->desc.bytes);
	else if (share_is_vmm(m->desc.kind) && m->window.gpu)
		gpu_window_close(&m->window);
	else if (share_is_ipc(m->desc.kind) && m->addr)
		gpu_ipc_release(m->share->gpu, share_vendor(m->desc.kind), m->ipc_device, m->addr);
	free(m->desc.runs);
	free(m);
}

static int make_mapping(struct share_mapping *m)
{
	bool host = m->desc.kind == SHARE_HOST;
	const struct share_sink sink = {
		.chunk = host ? host_chunk : gpu_chunk,
		.settle = host ? host_settle : gpu_settle,
		.handle = ipc_handle,
		.to = m,
	};
	int ret = open_mapping(m);

	if (!ret)
		ret = share_fetch(m->share, &m->desc, &sink);
	if (!ret)
		finish_mapping(m);
	return ret;
}

static bool same_layout(const struct share_descriptor *a, const struct share_descriptor *b)
{
	return a->kind == b->kind && a->run_count == b->run_count &&
	       !memcmp(a->runs, b->runs, a->run_count * sizeof(*a->runs));
}

static struct share_mapping *find_mapping(struct mrg_share *share, const struct share_mapping *like)
{
	struct share_mapping *m;

	for (m = share->mappings; m; m = m->next)
		if (m->desc.generation == like->desc.generation &&
		    !memcmp(m->desc.token, like->desc.token, SHARE_TOKEN) &&
		    m->device == like->device && m->flags == like->flags &&
		    same_layout(&m->desc, &like->desc))
			return m;
	return NULL;
}

/* Whether one was found; it may be still in the making, or fail, and then it is
 * looked for again. */
static struct share_mapping *join_mapping(struct mrg_share *share, const struct share_mapping *like)
{
	struct share_mapping *m = find_mapping(share, like);

	while (m && m->state == MAPPING_MAKING) {
		pthread_cond_wait(&share->imported, &share->lock);
		m = find_mapping(share, like);
	}
	return m;
}

static void leave_list(struct share_mapping *m)
{
	struct share_mapping **at = &m->share->mappings;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
}

/* Takes @fresh over; the mapping to use, with a use counted, or NULL. */
static struct share_mapping *get_mapping(struct mrg_share *share, struct share_mapping *fresh,
					 int *ret)
{
	struct share_mapping *m;

	*ret = 0;
	pthread_mutex_lock(&share->lock);
	m = join_mapping(share, fresh);
	if (m) {
		m->users++;
		pthread_mutex_unlock(&share->lock);
		close_mapping(fresh);
		return m;
	}
	fresh->state = MAPPING_MAKING;
	fresh->users = 1;
	fresh->next = share->mappings;
	share->mappings = fresh;
	pthread_mutex_unlock(&share->lock);

	*ret = make_mapping(fresh);

	pthread_mutex_lock(&share->lock);
	fresh->state = MAPPING_READY;
	if (*ret)
		leave_list(fresh);
	pthread_cond_broadcast(&share->imported);
	pthread_mutex_unlock(&share->lock);
	if (!*ret)
		return fresh;
	close_mapping(fresh);
	return NULL;
}

/* ---- the calls ---- */

static int check_host(struct mrg_share *share, const struct share_descriptor *desc)
{
	static const uint8_t unknown[16];

	if (memcmp(desc->boot, unknown, 16) && memcmp(share->boot, unknown, 16) &&
	    memcmp(desc->boot, share->boot, 16))
		return base_fail(
			share->error_owner, -EXDEV, "check descriptor",
			"reach that memory with RDMA",
			"the descriptor is of another machine, or from before a reboot (boot id)");
	return 0;
}

static bool is_own(struct mrg_share *share, const struct share_descriptor *desc)
{
	struct mrg_range *range = share_range_find(share, desc->generation, desc->token);

	if (range)
		share_range_put(share, range);
	return range;
}

static int check_kind(struct mrg_share *share, const struct share_descriptor *desc)
{
	if (desc->kind == SHARE_HOST)
		return 0;
	if (share_is_vmm(desc->kind) && share->no_vmm)
		return base_fail(share->error_owner, -EOPNOTSUPP, "check descriptor",
				 "unset MRGUARD_SHARE_VMM",
				 "sharing of VMM memory is turned off by MRGUARD_SHARE_VMM=0");
	if (!share->gpu)
		return base_fail(
			share->error_owner, -ENODEV, "check descriptor",
			"pass a GPU handle to mrg_share_open()",
			"the descriptor is of GPU memory, and the handle was opened without a GPU");
	if (share_is_ipc(desc->kind) && is_own(share, desc))
		return base_fail(share->error_owner, -EOPNOTSUPP, "check descriptor",
				 "use the pointer itself",
				 "an IPC handle cannot be opened in the process that made it");
	return 0;
}

static int read_descriptor(struct mrg_share *share, const void *bytes, size_t length,
			   struct share_descriptor *desc)
{
	struct mrg_error error;
	int ret = share_decode(bytes, length, desc, &error);

	if (ret)
		return base_fail(share->error_owner, ret, error.stage, error.remedy, "%s",
				 error.cause);
	ret = check_host(share, desc);
	if (!ret)
		ret = check_kind(share, desc);
	if (ret)
		free(desc->runs);
	return ret;
}

static int check_opts(struct mrg_share *share, const struct mrg_import_opts *opts,
		      struct mrg_import_opts *o)
{
	int ret = base_opts_copy(o, sizeof(*o), opts);

	if (!opts)
		o->device = -1;
	if (!ret && !(o->flags & ~(uint32_t)MRG_IMPORT_ALL_DEVICES) && o->device >= -1)
		return 0;
	return base_fail(share->error_owner, -EINVAL, "check options", "",
			 "flags, device or size of the options are not known");
}

static struct mrg_import *new_import(struct mrg_share *share, const struct share_descriptor *desc,
				     const struct mrg_import_opts *o, struct share_mapping **fresh)
{
	struct mrg_import *import = calloc(1, sizeof(*import));

	*fresh = calloc(1, sizeof(**fresh));
	if (!import || !*fresh) {
		free(import);
		free(*fresh);
		return NULL;
	}
	(*fresh)->share = share;
	(*fresh)->desc = *desc;
	(*fresh)->device = o->device;
	(*fresh)->flags = o->flags;
	import->length = desc->length;
	return import;
}

int mrg_share_import(struct mrg_share *share, const void *bytes, size_t length,
		     const struct mrg_import_opts *opts, struct mrg_import **out)
{
	struct share_descriptor desc;
	struct share_mapping *fresh;
	struct mrg_import *import;
	struct mrg_import_opts o;
	uint64_t skip;
	int ret = share_check(share);

	if (!ret)
		ret = check_opts(share, opts, &o);
	if (!ret)
		ret = read_descriptor(share, bytes, length, &desc);
	if (ret)
		return ret;
	import = new_import(share, &desc, &o, &fresh);
	if (!import) {
		free(desc.runs);
		return base_fail(share->error_owner, -ENOMEM, "import", "", "no memory");
	}
	skip = desc.skip;
	import->mapping = get_mapping(share, fresh, &ret);
	if (ret) {
		free(import);
		return ret;
	}
	import->addr = import->mapping->addr + skip;
	*out = import;
	return 0;
}

uint64_t mrg_import_address(const struct mrg_import *import)
{
	return import->addr;
}

uint64_t mrg_import_length(const struct mrg_import *import)
{
	return import->length;
}

unsigned int mrg_import_devices(const struct mrg_import *import)
{
	return import->mapping->devices;
}

void mrg_import_release(struct mrg_import *import)
{
	struct share_mapping *m;
	bool last;

	if (!import || share_check(import->mapping->share))
		return;
	m = import->mapping;
	pthread_mutex_lock(&m->share->lock);
	last = !--m->users;
	if (last)
		leave_list(m);
	pthread_mutex_unlock(&m->share->lock);
	if (last)
		close_mapping(m);
	free(import);
}
