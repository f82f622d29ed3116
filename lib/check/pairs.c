/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "check/check.h"

/* Length of the sysfs path, whole components only, that both share. */
static size_t shared(const struct check_pci *a, const struct check_pci *b)
{
	size_t i = 0, last = 0;

	while (a->real[i] && a->real[i] == b->real[i]) {
		if (a->real[i] == '/')
			last = i;
		i++;
	}
	return last;
}

static size_t depth(const char *path, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += path[i] == '/';
	return n;
}

enum check_distance check_pair_distance(const struct check_pci *a, const struct check_pci *b)
{
	size_t len = shared(a, b);

	/* "/sys/devices/pci0000:00" has three slashes; anything longer is a
	 * bridge that both hang from. */
	if (depth(a->real, len) > 3)
		return CHECK_DISTANCE_SWITCH;
	return depth(a->real, len) == 3 ? CHECK_DISTANCE_ROOT_COMPLEX : CHECK_DISTANCE_NUMA;
}

const struct check_pci *check_dma_function(const struct check_rdma *r)
{
	return r->data_direct ? r->data_direct : r->has_pci ? &r->pci : NULL;
}

const struct check_pci *check_nearest_gpu(const struct check_host *h, const struct check_rdma *r)
{
	const struct check_pci *from = check_dma_function(r), *best = NULL;

	for (size_t i = 0; from && i < h->gpu_count; i++)
		if (!best || shared(from, &h->gpus[i]) > shared(from, best))
			best = &h->gpus[i];
	return best;
}

static int up_from(const struct check_pci *p, size_t stop, int (*fn)(void *, const char *),
		   void *arg)
{
	char path[sizeof(p->real)];
	char *slash;
	int rc = 0;

	strcpy(path, p->real);
	while (!rc && (slash = strrchr(path, '/')) && (size_t)(slash - path) > stop) {
		*slash = 0;
		if (depth(path, strlen(path)) > 3)
			rc = fn(arg, path);
	}
	return rc;
}

int check_pair_for_each_bridge(const struct check_pci *a, const struct check_pci *b,
			       int (*fn)(void *arg, const char *bridge), void *arg)
{
	size_t stop = shared(a, b);
	int rc = up_from(a, stop, fn, arg);

	return rc ? rc : up_from(b, stop, fn, arg);
}
