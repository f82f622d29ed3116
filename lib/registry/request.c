/* SPDX-License-Identifier: MIT */
/* What entries are made from, now or later. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "registry/registry.h"

static int own_fd(int fd)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return own < 0 ? -errno : own;
}

static int keep_dmabuf(struct registry_request *kept)
{
	int fd;

	if (!kept->has_dmabuf)
		return 0;
	fd = own_fd(kept->dmabuf.fd);
	if (fd < 0) {
		kept->has_dmabuf = false;
		return fd;
	}
	kept->dmabuf.fd = fd;
	return 0;
}

static int keep_memfds(struct registry_request *kept, const struct registry_request *request)
{
	if (!request->memfd_count)
		return 0;
	kept->memfds = calloc(request->memfd_count, sizeof(*kept->memfds));
	if (!kept->memfds)
		return -ENOMEM;
	while (kept->memfd_count < request->memfd_count) {
		struct mrg_memfd *own = &kept->memfds[kept->memfd_count];

		*own = request->memfds[kept->memfd_count];
		own->fd = own_fd(own->fd);
		if (own->fd < 0)
			return own->fd;
		kept->memfd_count++;
	}
	return 0;
}

int registry_request_keep(struct registry_request **out, const struct registry_request *request)
{
	struct registry_request *kept = malloc(sizeof(*kept));
	int ret;

	if (!kept)
		return -ENOMEM;
	*kept = *request;
	kept->memfds = NULL;
	kept->memfd_count = 0;
	kept->exported = false;
	ret = keep_dmabuf(kept);
	if (!ret)
		ret = keep_memfds(kept, request);
	if (ret)
		registry_request_drop(kept);
	else
		*out = kept;
	return ret;
}

/* An open DMA-BUF keeps GPU memory in use; the MRs hold it by themselves. */
void registry_request_end(struct mrg_registry *registry, struct registry_request *request)
{
	if (request->exported)
		mrg_gpu_export_release(registry->gpu, &request->export);
	request->exported = false;
}

void registry_request_drop(struct registry_request *kept)
{
	if (kept->has_dmabuf)
		close(kept->dmabuf.fd);
	for (size_t i = 0; i < kept->memfd_count; i++)
		close(kept->memfds[i].fd);
	free(kept->memfds);
	free(kept);
}
