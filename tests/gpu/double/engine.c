/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/double/engine.h"

struct double_gpu double_gpu;

/* A file that backs device memory: this process's own, or an exporter's. */
struct vram {
	struct vram *next;
	dev_t dev;
	ino_t ino;
	int fd;
	uint64_t used;
};

/* Physical memory: what a handle names. */
struct object {
	struct object *next;
	struct vram *vram;
	uint64_t offset, size;
	struct gpu_prop prop;
	long refs; /* handles of the caller */
	long maps;
	bool imported;
	int late_fd; /* must be open still when access is set; or -1 */
};

enum kind { K_RESERVED, K_MAPPED, K_ALLOC, K_OPENED };

struct range {
	struct range *next;
	enum kind kind;
	enum double_kind alloc;
	uint64_t addr, size, asked;
	struct object *object;
	uint64_t id;
	int device;
};

struct context {
	int device;
	long refs;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vram *vrams, *own;
static struct object *objects;
static struct range *ranges;
static struct context contexts[DOUBLE_DEVICES];
static uint64_t next_id = 1;
static __thread struct context *stack[16];
static __thread int depth;

__attribute__((noreturn)) static void crash(const char *what)
{
	fprintf(stderr, "the driver would crash here: %s\n", what);
	abort();
}

/* Each entry point comes through here, so any of them can be made to fail. */
int double_call(void)
{
	if (double_gpu.need_init && !double_gpu.initialised)
		return GPU_NOT_INITIALIZED;
	if (__atomic_add_fetch(&double_gpu.calls, 1, __ATOMIC_RELAXED) == double_gpu.fail_at)
		return double_gpu.fail_result;
	return 0;
}

#define ENTER()                              \
	do {                                 \
		int result_ = double_call(); \
		if (result_)                 \
			return result_;      \
	} while (0)
#define LOCKED(expression)                   \
	({                                   \
		int locked_;                 \
		pthread_mutex_lock(&lock);   \
		locked_ = (expression);      \
		pthread_mutex_unlock(&lock); \
		locked_;                     \
	})

void double_reset(void)
{
	memset(&double_gpu, 0, sizeof(double_gpu));
	double_gpu.devices = 1;
	double_gpu.version = 13000;
	for (int i = 0; i < DOUBLE_DEVICES; i++) {
		double_gpu.attributes[i][103] = 1;
		double_gpu.attributes[i][110] = 1;
		double_gpu.attributes[i][116] = 1;
		double_gpu.attributes[i][124] = 1;
		double_gpu.attributes[i][128] = 1;
		contexts[i] = (struct context){ .device = i };
	}
	depth = 0;
}

int double_live(void)
{
	return (int)(double_gpu.handles + double_gpu.mappings + double_gpu.reservations +
		     double_gpu.opened);
}

static struct vram *vram_find(int fd, bool keep)
{
	struct stat st;
	struct vram *v;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return NULL;
	for (v = vrams; v; v = v->next)
		if (v->dev == st.st_dev && v->ino == st.st_ino)
			return v;
	if (!keep)
		return NULL;
	v = calloc(1, sizeof(*v));
	v->dev = st.st_dev;
	v->ino = st.st_ino;
	v->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (v->fd < 0) {
		free(v);
		return NULL;
	}
	v->next = vrams;
	vrams = v;
	return v;
}

static struct vram *vram_own(void)
{
	int fd;

	if (own)
		return own;
	fd = memfd_create("double-vram", MFD_CLOEXEC);
	if (fd < 0)
		return NULL;
	own = vram_find(fd, true);
	close(fd);
	return own;
}

static uint64_t vram_take(uint64_t size)
{
	uint64_t offset = own->used;

	own->used += (size + DOUBLE_GRANULE - 1) & ~(DOUBLE_GRANULE - 1);
	if (ftruncate(own->fd, (off_t)own->used))
		crash("out of device memory");
	return offset;
}

static struct range *range_at(uint64_t addr, enum kind kind)
{
	for (struct range *r = ranges; r; r = r->next)
		if (r->kind == kind && addr >= r->addr && addr - r->addr < r->size)
			return r;
	return NULL;
}

static struct range *range_add(enum kind kind, uint64_t addr, uint64_t size)
{
	struct range *r = calloc(1, sizeof(*r));

	r->kind = kind;
	r->addr = addr;
	r->size = r->asked = size;
	r->id = next_id++;
	r->next = ranges;
	ranges = r;
	return r;
}

static void range_drop(struct range *range)
{
	struct range **at = &ranges;

	while (*at != range)
		at = &(*at)->next;
	*at = range->next;
	free(range);
}

static struct object *object_find(uint64_t handle)
{
	for (struct object *o = objects; o; o = o->next)
		if ((uint64_t)(uintptr_t)o == handle)
			return o;
	return NULL;
}

static struct object *object_new(struct vram *vram, uint64_t offset, uint64_t size)
{
	struct object *o = calloc(1, sizeof(*o));

	o->vram = vram;
	o->offset = offset;
	o->size = size;
	o->refs = 1;
	o->late_fd = -1;
	o->next = objects;
	objects = o;
	double_gpu.handles++;
	return o;
}

static void object_put(struct object *object)
{
	struct object **at = &objects;

	if (object->refs || object->maps)
		return;
	while (*at != object)
		at = &(*at)->next;
	*at = object->next;
	free(object);
}

#define WINDOW (1ULL << 31)

/*
 * Address space in multiples of 2 MiB.  A small range lies within a window of
 * 2 GiB: a plan cuts at the windows' borders, and where the kernel puts a range
 * over one, once in some hundred runs, a test would see one MR more.
 */
static uint64_t space(uint64_t size)
{
	uint64_t spare = size <= WINDOW ? size : 0;
	uint64_t room = size + spare + DOUBLE_GRANULE, start, aligned;
	void *p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return 0;
	start = (uint64_t)(uintptr_t)p;
	aligned = (start + DOUBLE_GRANULE - 1) & ~(DOUBLE_GRANULE - 1);
	if (spare && aligned / WINDOW != (aligned + size - 1) / WINDOW)
		aligned = (aligned + size - 1) / WINDOW * WINDOW;
	if (aligned > start)
		munmap(p, aligned - start);
	if (start + room > aligned + size)
		munmap((void *)(uintptr_t)(aligned + size), start + room - aligned - size);
	return aligned;
}

static int back(uint64_t addr, uint64_t size, int prot, int fd, uint64_t offset)
{
	void *p = mmap((void *)(uintptr_t)addr, size, prot, MAP_FIXED | MAP_SHARED, fd,
		       (off_t)offset);

	return p == MAP_FAILED ? GPU_OUT_OF_MEMORY : 0;
}

/* ---- allocations that are not VMM's ---- */

static uint64_t alloc_locked(enum double_kind kind, size_t size, int device)
{
	uint64_t whole = (size + DOUBLE_GRANULE - 1) & ~(DOUBLE_GRANULE - 1);
	uint64_t addr = space(whole), offset;
	struct range *r;

	if (!addr || !vram_own())
		return 0;
	offset = vram_take(whole);
	if (back(addr, whole, PROT_READ | PROT_WRITE, own->fd, offset))
		return 0;
	r = range_add(K_ALLOC, addr, whole);
	r->alloc = kind;
	r->asked = size;
	r->device = device;
	r->object = object_new(own, offset, whole);
	double_gpu.handles--;
	return addr;
}

uint64_t double_alloc(enum double_kind kind, size_t size, int device)
{
	uint64_t addr;

	pthread_mutex_lock(&lock);
	addr = alloc_locked(kind, size, device);
	pthread_mutex_unlock(&lock);
	return addr;
}

static int free_locked(uint64_t ptr)
{
	struct range *r = range_at(ptr, K_ALLOC);

	if (!r || r->addr != ptr)
		return GPU_INVALID_VALUE;
	munmap((void *)(uintptr_t)r->addr, r->size);
	r->object->refs = 0;
	object_put(r->object);
	range_drop(r);
	return 0;
}

int double_free(uint64_t ptr)
{
	return LOCKED(free_locked(ptr));
}

/* ---- pointers ---- */

static int put(void *data, int attribute, uint64_t value)
{
	switch (attribute) {
	case 1:
	case 7:
	case 11:
	case 12:
	case 14:
	case 17:
	case 18:
	case 19:
		memcpy(data, &value, 8);
		return 0;
	case 2:
	case 9:
	case 10:
		memcpy(data, &value, 4);
		return 0;
	case 8:
	case 15:
		memcpy(data, &value, 1);
		return 0;
	}
	return GPU_INVALID_VALUE;
}

static uint64_t chunk_value(const struct range *r, int attribute)
{
	const struct range *whole = range_at(r->addr, K_RESERVED);
	bool device = r->object->prop.location.type == GPU_LOCATION_DEVICE;

	switch (attribute) {
	case GPU_ATTR_MEMORY_TYPE:
		return device ? CUDA_MEMORY_DEVICE : CUDA_MEMORY_HOST;
	case GPU_ATTR_BUFFER_ID:
		return r->id;
	case GPU_ATTR_DEVICE_ORDINAL:
		return device ? (uint64_t)r->object->prop.location.id : (uint32_t)-2;
	case GPU_ATTR_RANGE_START:
		return whole ? whole->addr : 0;
	case GPU_ATTR_RANGE_SIZE:
		return whole ? whole->size : 0;
	case 14:
		return (uint64_t)r->object->prop.handle_types;
	case GPU_ATTR_RDMA_CAPABLE:
		return r->object->prop.flags.rdma;
	case GPU_ATTR_MAPPING_SIZE:
		return r->size;
	case GPU_ATTR_MAPPING_BASE:
		return r->addr;
	}
	return 0;
}

static uint64_t alloc_value(const struct range *r, int attribute)
{
	bool legacy = r->alloc == DOUBLE_LEGACY && r->kind == K_ALLOC;

	switch (attribute) {
	case GPU_ATTR_CONTEXT:
		return r->alloc == DOUBLE_LEGACY ? (uint64_t)(uintptr_t)&contexts[r->device] : 0;
	case GPU_ATTR_MEMORY_TYPE:
		return r->alloc == DOUBLE_PINNED ? CUDA_MEMORY_HOST : CUDA_MEMORY_DEVICE;
	case GPU_ATTR_BUFFER_ID:
		return r->id;
	case GPU_ATTR_IS_MANAGED:
		return r->alloc == DOUBLE_MANAGED;
	case GPU_ATTR_DEVICE_ORDINAL:
		return (uint64_t)r->device;
	case 10:
	case GPU_ATTR_RDMA_CAPABLE:
		return legacy;
	case GPU_ATTR_RANGE_START:
		return r->addr;
	case GPU_ATTR_RANGE_SIZE:
		return r->asked;
	case GPU_ATTR_MEMPOOL:
		return r->alloc == DOUBLE_POOL ? 0x9001 : 0;
	}
	return 0;
}

static struct range *alloc_at(uint64_t ptr)
{
	struct range *r = range_at(ptr, K_ALLOC);

	return r ? r : range_at(ptr, K_OPENED);
}

static int attribute_locked(void *data, int attribute, uint64_t ptr)
{
	const struct range *r = range_at(ptr, K_MAPPED);

	if (r)
		return put(data, attribute, chunk_value(r, attribute));
	r = alloc_at(ptr);
	return r ? put(data, attribute, alloc_value(r, attribute)) : GPU_INVALID_VALUE;
}

int double_attribute(void *data, int attribute, uint64_t ptr)
{
	ENTER();
	return LOCKED(attribute_locked(data, attribute, ptr));
}

/* Success and zeros for a pointer to no allocation. */
int double_attributes(unsigned int count, int *attributes, void **data, uint64_t ptr)
{
	ENTER();
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < count; i++)
		if (attribute_locked(data[i], attributes[i], ptr)) {
			uint32_t none = attributes[i] == 9 ? (uint32_t)-2 : 0;

			memcpy(data[i], &none, 4);
		}
	pthread_mutex_unlock(&lock);
	return 0;
}

static int address_range_locked(uint64_t *base, size_t *size, uint64_t ptr)
{
	const struct range *r = range_at(ptr, K_MAPPED);

	if (!r)
		r = alloc_at(ptr);
	if (!r)
		return GPU_NOT_FOUND;
	*base = r->addr;
	*size = r->asked;
	if (r->kind == K_MAPPED && double_gpu.base_zero &&
	    r->object->prop.location.type != GPU_LOCATION_DEVICE)
		*base = 0;
	return 0;
}

int double_address_range(uint64_t *base, size_t *size, uint64_t ptr)
{
	ENTER();
	return LOCKED(address_range_locked(base, size, ptr));
}

/* ---- DMA-BUFs ---- */

static int new_dmabuf(size_t size)
{
	int fd = memfd_create("double-dmabuf", MFD_CLOEXEC);

	if (fd >= 0 && ftruncate(fd, (off_t)(size - double_gpu.short_dmabuf)))
		crash("no memory");
	return fd;
}

static bool is_mapped(uint64_t ptr, uint64_t *end, bool *pool)
{
	const struct range *r = range_at(ptr, K_MAPPED);

	if (!r)
		r = range_at(ptr, K_ALLOC);
	if (!r || r->alloc == DOUBLE_MANAGED || r->alloc == DOUBLE_PINNED)
		return false;
	if (r->kind == K_MAPPED && r->object->prop.location.type != GPU_LOCATION_DEVICE)
		return false;
	*pool |= r->alloc == DOUBLE_POOL && r->kind == K_ALLOC;
	*end = r->addr + r->size;
	return true;
}

static int dmabuf_locked(int *fd, uint64_t ptr, size_t size, int type, unsigned long long flags)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = ptr;
	bool pool = false;
	int parts = 0;

	if (type != GPU_DMABUF_FD || !size || ptr % page || size % page || flags > 1)
		return GPU_INVALID_VALUE;
	for (; at < ptr + size; parts++) {
		if (!is_mapped(at, &at, &pool)) {
			if (pool)
				crash("a pool range past its mapped end");
			*fd = -1;
			return GPU_INVALID_VALUE;
		}
	}
	if (flags && !double_gpu.attributes[0][CUDA_DEV_HOST_PAGE_TABLES])
		return GPU_NOT_SUPPORTED;
	if (parts > 1 && double_gpu.dmabuf_refusals)
		return GPU_INVALID_VALUE;
	*fd = new_dmabuf(size);
	if (*fd < 0)
		return GPU_OPERATING_SYSTEM;
	double_gpu.dmabufs++;
	return 0;
}

int double_dmabuf(void *fd, uint64_t ptr, size_t size, int type, unsigned long long flags)
{
	ENTER();
	return LOCKED(dmabuf_locked(fd, ptr, size, type, flags));
}

/* ---- IPC handles of whole allocations ---- */

struct ipc {
	uint32_t magic;
	int32_t pid;
	int32_t fd;
	int32_t device;
	uint64_t offset, size, asked;
};
#define IPC_MAGIC 0x1bc1bc

static int ipc_get_locked(struct gpu_ipc_handle *handle, uint64_t ptr)
{
	const struct range *r = range_at(ptr, K_ALLOC);
	struct ipc ipc = { .magic = IPC_MAGIC, .pid = getpid() };

	if (!r || r->alloc != DOUBLE_LEGACY)
		return GPU_INVALID_VALUE;
	ipc.fd = own->fd;
	ipc.device = r->device;
	ipc.offset = r->object->offset;
	ipc.size = r->size;
	ipc.asked = r->asked;
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &ipc, sizeof(ipc));
	return 0;
}

int double_ipc_get(struct gpu_ipc_handle *handle, uint64_t ptr)
{
	ENTER();
	return LOCKED(ipc_get_locked(handle, ptr));
}

static int ipc_open_locked(uint64_t *ptr, const struct ipc *ipc)
{
	uint64_t addr;
	char path[64];
	struct range *r;
	int fd, result;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", ipc->pid, ipc->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return GPU_INVALID_VALUE;
	addr = space(ipc->size);
	result = addr ? back(addr, ipc->size, PROT_READ | PROT_WRITE, fd, ipc->offset) :
			GPU_OUT_OF_MEMORY;
	close(fd);
	if (result)
		return result;
	r = range_add(K_OPENED, addr, ipc->size);
	r->asked = ipc->asked;
	r->device = ipc->device;
	*ptr = addr;
	double_gpu.opened++;
	return 0;
}

int double_ipc_open(uint64_t *ptr, struct gpu_ipc_handle handle, unsigned int flags)
{
	struct ipc ipc;

	ENTER();
	memcpy(&ipc, &handle, sizeof(ipc));
	if (flags != GPU_IPC_LAZY_PEER || ipc.magic != IPC_MAGIC || ipc.pid == getpid())
		return GPU_INVALID_VALUE;
	return LOCKED(ipc_open_locked(ptr, &ipc));
}

static int ipc_close_locked(uint64_t ptr)
{
	struct range *r = range_at(ptr, K_OPENED);

	if (!r || r->addr != ptr)
		return GPU_INVALID_VALUE;
	munmap((void *)(uintptr_t)r->addr, r->size);
	range_drop(r);
	double_gpu.opened--;
	return 0;
}

int double_ipc_close(uint64_t ptr)
{
	ENTER();
	return LOCKED(ipc_close_locked(ptr));
}

/* ---- VMM ---- */

static int create_locked(uint64_t *handle, size_t size, const struct gpu_prop *prop)
{
	struct object *o;

	if (!vram_own())
		return GPU_OPERATING_SYSTEM;
	o = object_new(own, vram_take(size), size);
	o->prop = *prop;
	*handle = (uint64_t)(uintptr_t)o;
	return 0;
}

int double_create(uint64_t *handle, size_t size, const struct gpu_prop *prop,
		  unsigned long long flags)
{
	ENTER();
	if (flags || !size || size % DOUBLE_GRANULE ||
	    (prop->location.type == GPU_LOCATION_DEVICE && prop->location.id >= double_gpu.devices))
		return GPU_INVALID_VALUE;
	return LOCKED(create_locked(handle, size, prop));
}

static int retain_locked(uint64_t *handle, uint64_t addr)
{
	const struct range *r = range_at(addr, K_MAPPED);

	if (!r)
		return GPU_INVALID_VALUE;
	r->object->refs++;
	double_gpu.handles++;
	*handle = (uint64_t)(uintptr_t)r->object;
	return 0;
}

int double_retain(uint64_t *handle, uint64_t addr)
{
	ENTER();
	return LOCKED(retain_locked(handle, addr));
}

static int release_locked(uint64_t handle)
{
	struct object *o = object_find(handle);

	if (!handle)
		return GPU_INVALID_VALUE;
	if (!o)
		crash("release of an unknown handle");
	if (!o->refs)
		return GPU_INVALID_VALUE;
	o->refs--;
	double_gpu.handles--;
	object_put(o);
	return 0;
}

int double_release(uint64_t handle)
{
	return LOCKED(release_locked(handle));
}

static int properties_locked(struct gpu_prop *prop, uint64_t handle)
{
	const struct object *o = object_find(handle);

	if (!o)
		crash("properties of an unknown handle");
	*prop = o->prop;
	if (o->imported) {
		prop->handle_types = 0;
		prop->flags.rdma = 0;
	}
	return 0;
}

int double_properties(struct gpu_prop *prop, uint64_t handle)
{
	ENTER();
	return LOCKED(properties_locked(prop, handle));
}

int double_granularity(size_t *granularity, const struct gpu_prop *prop, int option)
{
	ENTER();
	if (prop->type != GPU_ALLOCATION_PINNED || option > 1)
		return GPU_INVALID_VALUE;
	*granularity = DOUBLE_GRANULE;
	return 0;
}

/* The descriptor's file position names the memory: its offset, and in the bits
 * below 2 MiB its size in granules. */
static int export_locked(int *out, uint64_t handle, int type)
{
	const struct object *o = object_find(handle);
	char path[64];
	int fd;

	if (!o || !o->refs)
		crash("export of an unknown handle");
	if (o->imported || type != GPU_HANDLE_POSIX_FD || !(o->prop.handle_types & type))
		return GPU_INVALID_VALUE;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", o->vram->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return GPU_OPERATING_SYSTEM;
	if (lseek(fd, (off_t)(o->offset | o->size / DOUBLE_GRANULE), SEEK_SET) < 0)
		crash("no file position");
	*out = fd;
	double_gpu.exports++;
	return 0;
}

int double_export(void *out, uint64_t handle, int type, unsigned long long flags)
{
	ENTER();
	return flags ? GPU_INVALID_VALUE : LOCKED(export_locked(out, handle, type));
}

static int import_locked(uint64_t *handle, int fd)
{
	off_t position = lseek(fd, 0, SEEK_CUR);
	struct vram *vram;
	struct object *o;
	uint64_t size;

	if (position < 0)
		return GPU_UNKNOWN;
	size = (uint64_t)position % DOUBLE_GRANULE * DOUBLE_GRANULE;
	vram = size ? vram_find(fd, true) : NULL;
	if (!vram)
		return GPU_UNKNOWN;
	o = object_new(vram, (uint64_t)position - (uint64_t)position % DOUBLE_GRANULE, size);
	o->imported = true;
	o->late_fd = double_gpu.hip_needs_open_fd ? fd : -1;
	o->prop.type = GPU_ALLOCATION_PINNED;
	o->prop.location.type = GPU_LOCATION_DEVICE;
	*handle = (uint64_t)(uintptr_t)o;
	return 0;
}

int double_import_fd(uint64_t *handle, int fd)
{
	ENTER();
	return fd <= 0 ? GPU_INVALID_VALUE : LOCKED(import_locked(handle, fd));
}

static int reserve_locked(uint64_t *ptr, size_t size)
{
	uint64_t addr = space(size);

	if (!addr)
		return GPU_OUT_OF_MEMORY;
	range_add(K_RESERVED, addr, size);
	double_gpu.reservations++;
	*ptr = addr;
	return 0;
}

int double_reserve(uint64_t *ptr, size_t size, size_t alignment, uint64_t hint,
		   unsigned long long flags)
{
	ENTER();
	(void)hint;
	if (!size || size % DOUBLE_GRANULE || alignment & (alignment - 1) || flags)
		return GPU_INVALID_VALUE;
	return LOCKED(reserve_locked(ptr, size));
}

static int address_free_locked(uint64_t ptr, size_t size)
{
	struct range *r = range_at(ptr, K_RESERVED);

	if (!r || r->addr != ptr || r->size != size)
		return GPU_INVALID_VALUE;
	for (struct range *m = ranges; m; m = m->next)
		if (m->kind == K_MAPPED && m->addr >= ptr && m->addr < ptr + size)
			return GPU_INVALID_VALUE;
	munmap((void *)(uintptr_t)ptr, size);
	range_drop(r);
	double_gpu.reservations--;
	return 0;
}

int double_address_free(uint64_t ptr, size_t size)
{
	return LOCKED(address_free_locked(ptr, size));
}

static int map_locked(uint64_t ptr, size_t size, uint64_t handle)
{
	struct object *o = object_find(handle);
	struct range *r;

	if (!o || !o->refs)
		crash("map of an unknown handle");
	if (!range_at(ptr, K_RESERVED) || range_at(ptr, K_MAPPED) || ptr % DOUBLE_GRANULE)
		return GPU_INVALID_VALUE;
	if (size != o->size)
		return size < o->size ? GPU_NOT_SUPPORTED : GPU_INVALID_VALUE;
	if (back(ptr, size, PROT_NONE, o->vram->fd, o->offset))
		return GPU_OUT_OF_MEMORY;
	r = range_add(K_MAPPED, ptr, size);
	r->object = o;
	o->maps++;
	double_gpu.mappings++;
	return 0;
}

int double_map(uint64_t ptr, size_t size, size_t offset, uint64_t handle, unsigned long long flags)
{
	ENTER();
	if (offset || flags)
		return GPU_INVALID_VALUE;
	return LOCKED(map_locked(ptr, size, handle));
}

static int unmap_one(struct range *r)
{
	void *p = mmap((void *)(uintptr_t)r->addr, r->size, PROT_NONE,
		       MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		crash("unmapping failed");
	r->object->maps--;
	object_put(r->object);
	range_drop(r);
	double_gpu.mappings--;
	return 0;
}

static int unmap_locked(uint64_t ptr, size_t size)
{
	for (uint64_t at = ptr; at < ptr + size;) {
		struct range *r = range_at(at, K_MAPPED);

		if (!r) {
			at += DOUBLE_GRANULE;
			continue;
		}
		if (r->addr < ptr || r->addr + r->size > ptr + size)
			return GPU_INVALID_VALUE;
		at = r->addr + r->size;
		unmap_one(r);
	}
	return 0;
}

int double_unmap(uint64_t ptr, size_t size)
{
	return LOCKED(unmap_locked(ptr, size));
}

static int set_access_locked(uint64_t ptr, size_t size, const struct gpu_access *desc)
{
	for (uint64_t at = ptr; at < ptr + size;) {
		const struct range *r = range_at(at, K_MAPPED);

		if (!r || r->addr != at || at + r->size > ptr + size)
			return GPU_INVALID_VALUE;
		if (r->object->late_fd >= 0 && fcntl(r->object->late_fd, F_GETFD) < 0)
			return GPU_INVALID_VALUE;
		mprotect((void *)(uintptr_t)r->addr, r->size,
			 desc->flags & 2 ? PROT_READ | PROT_WRITE : PROT_READ);
		at += r->size;
	}
	return 0;
}

int double_set_access(uint64_t ptr, size_t size, const struct gpu_access *desc, size_t count)
{
	ENTER();
	for (size_t i = 0; i < count; i++) {
		if (desc[i].location.type != GPU_LOCATION_DEVICE)
			return GPU_NOT_SUPPORTED;
		if (desc[i].location.id >= double_gpu.devices)
			return GPU_INVALID_VALUE;
	}
	return LOCKED(set_access_locked(ptr, size, desc));
}

/* ---- devices ---- */

/* All devices but the last are peers of each other. */
int double_can_access_peer(int *can, int device, int peer)
{
	ENTER();
	*can = device != peer && device < double_gpu.devices - 1 && peer < double_gpu.devices - 1;
	return 0;
}

int double_device_count(int *count)
{
	ENTER();
	if (!double_gpu.devices)
		return GPU_NO_DEVICE;
	*count = double_gpu.devices;
	return 0;
}

int double_device_name(char *name, int length, int device)
{
	ENTER();
	snprintf(name, (size_t)length, "Double %d", device);
	return 0;
}

int double_device_uuid(struct gpu_uuid *uuid, int device)
{
	ENTER();
	memset(uuid, 0xd0 + device, sizeof(*uuid));
	return 0;
}

int double_device_memory(size_t *bytes, int device)
{
	ENTER();
	(void)device;
	*bytes = 1ull << 37;
	return 0;
}

int double_device_pci(char *bdf, int length, int device)
{
	ENTER();
	snprintf(bdf, (size_t)length, "0000:%02X:00.0", 0x1b + device);
	return 0;
}

int double_init(unsigned int flags)
{
	if (flags)
		return GPU_INVALID_VALUE;
	if (double_gpu.init_result)
		return double_gpu.init_result;
	double_gpu.initialised = true;
	return 0;
}

/* ---- contexts ---- */

int double_ctx_current(void **ctx)
{
	ENTER();
	*ctx = depth ? stack[depth - 1] : NULL;
	return 0;
}

int double_ctx_device(int *device)
{
	ENTER();
	if (!depth)
		return GPU_INVALID_CONTEXT;
	*device = stack[depth - 1]->device;
	return 0;
}

int double_ctx_push(void *ctx)
{
	ENTER();
	if (depth == 16)
		crash("contexts are pushed and not popped");
	stack[depth++] = ctx;
	return 0;
}

int double_ctx_pop(void **ctx)
{
	if (!depth)
		return GPU_INVALID_CONTEXT;
	*ctx = stack[--depth];
	return 0;
}

int double_primary_state(int device, unsigned int *flags, int *active)
{
	ENTER();
	if (device < 0 || device >= double_gpu.devices)
		return GPU_INVALID_DEVICE;
	*flags = 0;
	*active = contexts[device].refs > 0;
	return 0;
}

int double_primary_retain(void **ctx, int device)
{
	ENTER();
	if (device < 0 || device >= double_gpu.devices)
		return GPU_INVALID_DEVICE;
	contexts[device].refs++;
	double_gpu.contexts++;
	*ctx = &contexts[device];
	return 0;
}

int double_primary_release(int device)
{
	contexts[device].refs--;
	double_gpu.contexts--;
	return 0;
}

int double_current_device(void)
{
	return depth ? stack[depth - 1]->device : -1;
}
