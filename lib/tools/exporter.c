/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/exporter.h"
#include "tools/fail.h"
#include "tools/parse.h"
#include "tools/simgpu_spec.h"

#define STAGE "make DMA-BUF"

static int fail_errno(struct mrg_error *error, const char *what, const char *remedy)
{
	int code = -errno;

	return base_error_set(error, code, STAGE, remedy, "%s: %s.", what, strerror(-code));
}

/* udmabuf wants memory that cannot shrink under it. */
static int sealed_memory(uint64_t size, struct mrg_error *error)
{
	int fd = memfd_create("mrguard", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return fail_errno(error, "The memory file cannot be made", "");
	if (!ftruncate(fd, (off_t)size) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return fd;
	fail_errno(error, "The memory file cannot be given its size", "");
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
		fd = fail_errno(
			error, "The exporter udmabuf refuses the size",
			"Give whole pages, up to /sys/module/udmabuf/parameters/size_limit_mb.");
	close(memory);
	return fd;
}

static int udmabuf_open(const char *spec, struct mrg_error *error)
{
	uint64_t size;
	int device, fd;

	if (parse_size(spec, &size) || !size || size > INT64_MAX)
		return base_error_set(error, -EINVAL, STAGE,
				      "Sizes are written as 4096, 0x1000 or 4K.",
				      "The size of udmabuf is \"%s\", which is no size.", spec);
	device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (device < 0)
		return fail_errno(
			error, "The device /dev/udmabuf cannot be opened",
			"Load it (sudo modprobe udmabuf), and use sudo or join its group.");
	fd = udmabuf_create(device, size, error);
	close(device);
	return fd;
}

static int simgpu_open(const char *spec, struct mrg_error *error)
{
	int fd = simgpu_spec_create(spec);

	switch (fd) {
	case -EINVAL:
		return base_error_set(error, fd, STAGE,
				      "Write SIZE[@ADDRESS][+SIZE...][,seg=SIZE]; "
				      "lib/tools/simgpu_spec.h has all of it.",
				      "The spec of simgpu is \"%s\", which is no spec.", spec);
	case -ENOENT:
		return base_error_set(error, fd, STAGE,
				      "It belongs to the test ground, which `make demo' shows.",
				      "The module simgpu is not loaded.");
	case -ERANGE:
		return base_error_set(error, fd, STAGE,
				      "Keep inside it, or invent addresses (,fake).",
				      "The simgpu buffer \"%s\" is outside of the reserved RAM.",
				      spec);
	default:
		return fd >= 0 ? fd :
				 base_error_set(error, fd, STAGE, "",
						"The exporter simgpu failed: %s.", strerror(-fd));
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
	return base_error_set(error, -EINVAL, STAGE, "Write udmabuf:SIZE or simgpu:SPEC.",
			      "The --dmabuf-from \"%s\" names no exporter.", spec);
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
		return base_error_set(error, -EIO, STAGE, "",
				      "The DMA-BUF %s does not tell its size.", spec);
	}
	*fd = made;
	*size = (uint64_t)end;
	return 0;
}
