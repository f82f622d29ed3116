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
	SLIST_ENTRY(share_mapping) next;
	struct mrg_share *share;
	enum mapping_state state;
	unsigned int users;
	/* its memory */
	struct share_token token;
	int32_t device;
	uint32_t flags;
	uid_t owner; /* with MRG_IMPORT_OWNER */
	/* its place */
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
	void *p = mmap(NULL, m->token.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1, 0);

	if (p == MAP_FAILED)
		return base_fail(m->share->error_owner, -ENOMEM, "reserve", "",
				 "No address space is left for %" PRIu64 " bytes.", m->token.bytes);
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
		ret = base_fail(
			m->share->error_owner, -EPROTO, "map chunk",
			"Run the same release of libmrguard in both processes.",
			"The owner sent a file descriptor that is not a sealed memfd of %" PRIu64
			" bytes.",
			size);
	} else {
		p = mmap((void *)(uintptr_t)(m->addr + m->filled), size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, fd, (off_t)offset);
		if (p == MAP_FAILED)
			ret = base_fail(m->share->error_owner, -errno, "map chunk",
					"See vm.max_map_count.",
					"A chunk of %" PRIu64 " bytes cannot be mapped: %s.", size,
					strerror(errno));
	}
	close(fd);
	m->filled += ret ? 0 : size;
	return ret;
}

/* ---- GPU memory ---- */

static int gpu_open(struct share_mapping *m)
{
	uint64_t granule;
	int ret;

	ret = gpu_window_open(m->share->gpu, share_vendor(m->token.kind), m->token.device,
			      m->device, m->token.bytes, &m->window);
	if (ret)
		return adopt(m->share, ret);
	ret = gpu_window_granule(&m->window, &granule);
	if (ret)
		return adopt(m->share, ret);
	m->addr = m->window.addr;
	for (size_t i = 0; i < m->token.run_count; i++)
		if (m->token.runs[i].size % granule)
			return base_fail(
				m->share->error_owner, -EBADMSG, "reserve",
				"Pass the bytes on as they are.",
				"A chunk has %" PRIu64
				" bytes, which is not a multiple of this GPU's granularity, %" PRIu64
				".",
				m->token.runs[i].size, granule);
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
	return adopt(m->share, gpu_ipc_import(m->share->gpu, share_vendor(m->token.kind),
					      m->token.device, &handle, &m->ipc_device, &m->addr));
}

/* ---- mappings ---- */

static int open_mapping(struct share_mapping *m)
{
	if (m->token.kind == SHARE_HOST)
		return host_open(m);
	return share_is_vmm(m->token.kind) ? gpu_open(m) : 0;
}

static void finish_mapping(struct share_mapping *m)
{
	if (share_is_ipc(m->token.kind))
		m->devices = 1;
	if (share_is_vmm(m->token.kind))
		m->devices = (unsigned int)gpu_window_finish(&m->window,
							     m->flags & MRG_IMPORT_ALL_DEVICES);
}

static void close_mapping(struct share_mapping *m)
{
	if (m->token.kind == SHARE_HOST && m->addr)
		munmap((void *)(uintptr_t)m->addr, m->token.bytes);
	else if (share_is_vmm(m->token.kind) && m->window.gpu)
		gpu_window_close(&m->window);
	else if (share_is_ipc(m->token.kind) && m->addr)
		gpu_ipc_release(m->share->gpu, share_vendor(m->token.kind), m->ipc_device, m->addr);
	free(m->token.runs);
	free(m);
}

static int make_mapping(struct share_mapping *m)
{
	bool host = m->token.kind == SHARE_HOST;
	const struct share_sink sink = {
		.chunk = host ? host_chunk : gpu_chunk,
		.settle = host ? NULL : gpu_settle,
		.handle = ipc_handle,
		.to = m,
	};
	int ret = open_mapping(m);

	if (!ret)
		ret = share_fetch(m->share, &m->token,
				  m->flags & MRG_IMPORT_OWNER ? &m->owner : NULL, &sink);
	if (!ret)
		finish_mapping(m);
	return ret;
}

static bool same_layout(const struct share_token *a, const struct share_token *b)
{
	return a->kind == b->kind && a->run_count == b->run_count &&
	       !memcmp(a->runs, b->runs, a->run_count * sizeof(*a->runs));
}

static struct share_mapping *find_mapping(struct mrg_share *share, const struct share_mapping *like)
{
	struct share_mapping *m;

	SLIST_FOREACH(m, &share->mappings, next)
		if (m->token.generation == like->token.generation &&
		    !memcmp(m->token.secret, like->token.secret, SHARE_SECRET) &&
		    m->device == like->device && m->flags == like->flags &&
		    m->owner == like->owner && same_layout(&m->token, &like->token))
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
	SLIST_INSERT_HEAD(&share->mappings, fresh, next);
	pthread_mutex_unlock(&share->lock);

	*ret = make_mapping(fresh);

	pthread_mutex_lock(&share->lock);
	fresh->state = MAPPING_READY;
	if (*ret)
		SLIST_REMOVE(&share->mappings, fresh, share_mapping, next);
	pthread_cond_broadcast(&share->imported);
	pthread_mutex_unlock(&share->lock);
	if (!*ret)
		return fresh;
	close_mapping(fresh);
	return NULL;
}

/* ---- the calls ---- */

static int check_host(struct mrg_share *share, const struct share_token *token)
{
	static const uint8_t unknown[16];

	if (memcmp(token->boot, unknown, 16) && memcmp(share->boot, unknown, 16) &&
	    memcmp(token->boot, share->boot, 16))
		return base_fail(
			share->error_owner, -EXDEV, "check token", "Reach that memory with RDMA.",
			"The token is of another machine, or from before a reboot (its boot id differs).");
	return 0;
}

static bool is_own(struct mrg_share *share, const struct share_token *token)
{
	struct mrg_range *range = share_range_find(share, token->generation, token->secret);

	if (range)
		share_range_put(share, range);
	return range;
}

static int check_kind(struct mrg_share *share, const struct share_token *token)
{
	if (token->kind == SHARE_HOST)
		return 0;
	if (share_is_vmm(token->kind) && share->no_vmm)
		return base_fail(share->error_owner, -EOPNOTSUPP, "check token",
				 "Unset MRGUARD_SHARE_VMM.",
				 "Sharing of VMM memory is turned off by MRGUARD_SHARE_VMM=0.");
	if (!share->gpu)
		return base_fail(
			share->error_owner, -ENODEV, "check token",
			"Pass a GPU handle to mrg_share_open().",
			"The token is of GPU memory, and the handle was opened without a GPU handle.");
	if (share_is_ipc(token->kind) && is_own(share, token))
		return base_fail(share->error_owner, -EOPNOTSUPP, "check token",
				 "Use the pointer itself.",
				 "An IPC handle cannot be opened in the process that made it.");
	return 0;
}

static int read_token(struct mrg_share *share, const void *bytes, size_t length,
		      struct share_token *token)
{
	struct mrg_error error;
	int ret = share_token_decode(bytes, length, token, &error);

	if (ret)
		return mrg_private_error_keep(share->error_owner, &error);
	ret = check_host(share, token);
	if (!ret)
		ret = check_kind(share, token);
	if (ret)
		free(token->runs);
	return ret;
}

static int check_opts(struct mrg_share *share, const struct mrg_import_opts *opts,
		      struct mrg_import_opts *o)
{
	const uint32_t known = MRG_IMPORT_ALL_DEVICES | MRG_IMPORT_ON_DEVICE | MRG_IMPORT_OWNER;
	int ret = base_opts_copy(o, sizeof(*o), opts);

	if (!ret && !(o->flags & ~known) && !o->reserved &&
	    (o->flags & MRG_IMPORT_ON_DEVICE ? o->device >= 0 : !o->device) &&
	    (o->flags & MRG_IMPORT_OWNER || !o->owner)) {
		if (!(o->flags & MRG_IMPORT_ON_DEVICE))
			o->device = -1;
		return 0;
	}
	return base_fail(
		share->error_owner, -EINVAL, "check options",
		"Zero the options, set their size, and use flags of this release.",
		"The options have a flag, a device or a size that this release does not know.");
}

static struct mrg_import *new_import(struct mrg_share *share, const struct share_token *token,
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
	(*fresh)->token = *token;
	(*fresh)->device = o->device;
	(*fresh)->flags = o->flags;
	(*fresh)->owner = o->owner;
	import->length = token->length;
	return import;
}

int mrg_share_import(struct mrg_share *share, const void *bytes, size_t length,
		     const struct mrg_import_opts *opts, struct mrg_import **out)
{
	struct share_token token;
	struct share_mapping *fresh;
	struct mrg_import *import;
	struct mrg_import_opts o;
	uint64_t skip;
	int ret = share_check(share);

	if (!ret)
		ret = check_opts(share, opts, &o);
	if (!ret)
		ret = read_token(share, bytes, length, &token);
	if (ret)
		return ret;
	import = new_import(share, &token, &o, &fresh);
	if (!import) {
		free(token.runs);
		return base_fail(share->error_owner, -ENOMEM, "import", "",
				 "No memory is left for the import.");
	}
	skip = token.skip;
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
		SLIST_REMOVE(&m->share->mappings, m, share_mapping, next);
	pthread_mutex_unlock(&m->share->lock);
	if (last)
		close_mapping(m);
	free(import);
}
