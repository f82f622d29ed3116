/* SPDX-License-Identifier: MIT */
/* The registry: opening and closing, and what is asked without its lock. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/opts.h"
#include "registry/rcu.h"
#include "registry/registry.h"

int registry_check(const struct mrg_registry *registry)
{
	if (registry->pid == getpid())
		return 0;
	return base_fail(registry->error_owner, -ECHILD, "check process",
			 "Open a registry in the child.",
			 "The registry was opened by process %d, and this is its child %d.",
			 (int)registry->pid, (int)getpid());
}

int mrg_registry_last_error(const struct mrg_registry *registry, struct mrg_error *error)
{
	return mrg_private_error_read(registry->error_owner, error);
}

/* ---- opening ---- */

/* Descriptors take visible ASCII only. */
static void read_host(char name[64])
{
	if (gethostname(name, 63))
		name[0] = '\0';
	name[63] = '\0';
	for (char *at = name; *at; at++)
		if (*at <= ' ' || *at > '~')
			*at = '?';
}

static int read_devices(struct mrg_registry *registry, const struct mrg_registry_opts *opts)
{
	for (size_t i = 0; i < opts->device_count; i++) {
		struct registry_device *device = &registry->devices[i];
		int ret;

		device->open = opts->devices[i];
		if (device->open.reserved[0] || device->open.reserved[1])
			return -EINVAL;
		if (!device->open.port)
			device->open.port = 1;
		ret = registry->ops->device(registry, device);
		if (ret)
			return ret;
	}
	return 0;
}

static struct mrg_registry *make_registry(const struct mrg_registry_opts *opts,
					  const struct registry_ops *ops)
{
	struct mrg_registry *registry;

	registry = calloc(1, sizeof(*registry) + opts->device_count * sizeof(registry->devices[0]));
	if (!registry)
		return NULL;
	registry->device_count = opts->device_count;
	registry->slot_count = opts->device_count + MRG_PROTO_COUNT - 2;
	registry->ops = ops;
	registry->error_owner = mrg_private_error_owner();
	registry->pid = getpid();
	registry->ctx = opts->ctx;
	registry->share = opts->share;
	registry->gpu = opts->gpu;
	registry->next_generation = 1;
	registry_index_init(&registry->index, registry_lookup_bytes(registry) +
						      sizeof(struct registry_buffer_locked));
	mrg_boot_id(registry->boot);
	read_host(registry->host);
	return registry;
}

int registry_open_with(struct mrg_registry **out, const struct mrg_registry_opts *opts,
		       const struct registry_ops *ops)
{
	struct mrg_registry *registry;
	struct mrg_registry_opts o;
	int ret;

	if (base_opts_copy(&o, sizeof(o), opts) || o.device_count > MRG_REGISTRY_MAX_DEVICES ||
	    (o.device_count && !o.devices))
		return -EINVAL;
	registry = make_registry(&o, ops);
	if (!registry)
		return -ENOMEM;
	ret = getrandom(&registry->instance, sizeof(registry->instance), 0) < 0 ?
		      -errno :
		      read_devices(registry, &o);
	if (ret) {
		free(registry);
		return ret;
	}
	registry->stats.instance = registry->instance;
	pthread_mutex_init(&registry->lock, NULL);
	pthread_cond_init(&registry->changed, NULL);
	*out = registry;
	return 0;
}

int mrg_registry_open(struct mrg_registry **registry, const struct mrg_registry_opts *opts)
{
	struct mrg_registry_opts o;

	if (base_opts_copy(&o, sizeof(o), opts) || (o.device_count && !o.ctx))
		return -EINVAL;
	return registry_open_with(registry, opts, &registry_ops_real);
}

/* ---- closing ---- */

static int is_held(struct mrg_buffer *buffer, void *arg)
{
	(void)arg;
	return atomic_load(&buffer->users) & ~BUFFER_CLOSED ? -EBUSY : 0;
}

static int undo_one(struct mrg_buffer *buffer, void *arg)
{
	int *last = arg, ret = registry_undo(buffer);

	if (ret)
		*last = ret;
	return 0;
}

static int drop_lazy(struct mrg_buffer *buffer, void *arg)
{
	(void)arg;
	if (buffer->locked->lazy)
		registry_request_drop(buffer->locked->lazy);
	return 0;
}

static void each_left(struct mrg_registry *registry,
		      int (*visit)(struct mrg_buffer *buffer, void *arg), void *arg)
{
	struct mrg_buffer *next;

	for (struct mrg_buffer *at = registry->left; at; at = next) {
		next = at->locked->next;
		visit(at, arg);
	}
}

int mrg_registry_close(struct mrg_registry *registry)
{
	int ret;

	if (!registry)
		return 0;
	if (registry_check(registry))
		return -ECHILD;
	if (registry_index_each(&registry->index, is_held, NULL))
		return base_fail(registry->error_owner, -EBUSY, "close registry",
				 "Let all transfers end, then close the registry again.",
				 "A buffer of the registry is held.");
	/* All are tried; the last failure is reported. */
	ret = registry_undo_leftovers(registry);
	registry_index_each(&registry->index, undo_one, &ret);
	each_left(registry, undo_one, &ret);
	if (ret)
		return ret;
	/* A thread may still be inside its last mrg_buffer_put(). */
	registry_rcu_wait();
	registry_index_each(&registry->index, drop_lazy, NULL);
	each_left(registry, drop_lazy, NULL);
	registry_index_destroy(&registry->index);
	pthread_mutex_destroy(&registry->lock);
	pthread_cond_destroy(&registry->changed);
	free(registry);
	return 0;
}

/* ---- questions ---- */

void mrg_registry_stats(struct mrg_registry *registry, struct mrg_registry_stats *stats)
{
	pthread_mutex_lock(&registry->lock);
	*stats = registry->stats;
	pthread_mutex_unlock(&registry->lock);
}

size_t mrg_registry_device_count(const struct mrg_registry *registry)
{
	return registry->device_count;
}

const struct mrg_registry_device *mrg_registry_device(const struct mrg_registry *registry,
						      size_t index)
{
	return index < registry->device_count ? &registry->devices[index].open : NULL;
}
