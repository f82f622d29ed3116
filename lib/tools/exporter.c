/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/exporter.h"
#include "tools/fail.h"
#include "tools/parse.h"
#include "tools/simgpu_spec.h"

#define STAGE "make DMA-BUF"

static int fail_errno(struct mrg_error *error, const char *what, const char *remedy)
{
	int code = -errno;

	return fail_set(error, code, STAGE, remedy, "%s: %s", what, strerror(-code));
}

/* udmabuf wants memory that cannot shrink under it. */
static int sealed_memory(uint64_t size, struct mrg_error *error)
{
	int fd = memfd_create("mrguard", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return fail_errno(error, "memfd_create", "");
	if (!ftruncate(fd, (off_t)size) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return fd;
	fail_errno(error, "cannot size the memory file", "");
	close(fd);
	return error->code;
}

static int udmabuf_create(int device, uint64_t size, struct mrg_error *error)
{
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = size };
	int memory = sealed_memory(size, error);
	int fd;

	if (memory < 0)
		return memory;
	create.memfd = (uint32_t)memory;
	fd = ioctl(device, UDMABUF_CREATE, &create);
	if (fd < 0)
		fd = fail_errno(error, "udmabuf refuses the size",
				"sizes are whole pages, up to "
				"/sys/module/udmabuf/parameters/size_limit_mb");
	close(memory);
	return fd;
}

static int udmabuf_open(const char *spec, struct mrg_error *error)
{
	uint64_t size;
	int device, fd;

	if (mrg_parse_size(spec, &size) || !size || size > INT64_MAX)
		return fail_set(error, -EINVAL, STAGE, "sizes are written as 4096, 0x1000 or 4K",
				"udmabuf: expected a size, read \"%s\"", spec);
	device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (device < 0)
		return fail_errno(error, "/dev/udmabuf",
				  "load it: sudo modprobe udmabuf; and use "
				  "sudo, or join its group");
	fd = udmabuf_create(device, size, error);
	close(device);
	return fd;
}

static int simgpu_open(const char *spec, struct mrg_error *error)
{
	int fd = simgpu_spec_create(spec);

	switch (fd) {
	case -EINVAL:
		return fail_set(error, fd, STAGE,
				"write SIZE[@ADDRESS][+SIZE...][,seg=SIZE]; "
				"lib/tools/simgpu_spec.h has all of it",
				"simgpu: expected a spec, read \"%s\"", spec);
	case -ENOENT:
		return fail_set(error, fd, STAGE,
				"it belongs to the test ground: `make demo' "
				"shows it",
				"simgpu: the module is not loaded");
	case -ERANGE:
		return fail_set(error, fd, STAGE, "keep inside it, or invent addresses: ,fake",
				"simgpu: \"%s\" is outside the reserved RAM", spec);
	default:
		return fd >= 0 ? fd : fail_set(error, fd, STAGE, "", "simgpu: %s", strerror(-fd));
	}
}

static const struct {
	const char *prefix;
	int (*open)(const char *spec, struct mrg_error *error);
} exporters[] = {
	{ "udmabuf:", udmabuf_open },
	{ "simgpu:", simgpu_open },
};

static int open_spec(const char *spec, struct mrg_error *error)
{
	for (size_t i = 0; i < sizeof(exporters) / sizeof(exporters[0]); i++) {
		size_t len = strlen(exporters[i].prefix);

		if (!strncmp(spec, exporters[i].prefix, len))
			return exporters[i].open(spec + len, error);
	}
	return fail_set(error, -EINVAL, STAGE, "write udmabuf:SIZE or simgpu:SPEC",
			"--dmabuf-from: expected an exporter, read \"%s\"", spec);
}

int exporter_open(const char *spec, int *fd, uint64_t *size, struct mrg_error *error)
{
	int made = open_spec(spec, error);
	off_t end;

	if (made < 0)
		return made;
	end = lseek(made, 0, SEEK_END);
	if (end <= 0) {
		close(made);
		return fail_set(error, -EIO, STAGE, "", "%s: the DMA-BUF does not tell its size",
				spec);
	}
	*fd = made;
	*size = (uint64_t)end;
	return 0;
}
