/* SPDX-License-Identifier: MIT */
/* Entries as they really are: MRs, and published ranges of <mrguard/share.h>. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "private/private.h"
#include "registry/registry.h"

static int share_failure(const struct mrg_registry *registry, int code, struct mrg_error *error)
{
	if (!mrg_share_last_error(registry->share, error))
		return error->code = code;
	return base_error_set(error, code, "publish memory", "", "The memory cannot be shared: %s.",
			      strerror(-code));
}

static uint64_t memfd_bytes(const struct registry_request *request)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < request->memfd_count; i++)
		sum += request->memfds[i].length;
	return sum;
}

static int publish(struct mrg_registry *registry, const struct registry_request *request,
		   uint32_t protocols, struct mrg_range **range, struct mrg_error *error)
{
	int ret;

	if (protocols != MRG_PROTO_BIT(MRG_PROTO_HOST_SHM))
		ret = mrg_share_publish(registry->share, request->addr, request->length, range);
	else if (memfd_bytes(request) == request->length)
		ret = mrg_share_publish_memfds(registry->share, request->memfds,
					       request->memfd_count, range);
	else
		return base_error_set(error, -EINVAL, "publish memory",
				      "Give the memfds that the range is mapped from.",
				      "The memfds hold %llu bytes, and the range has %llu.",
				      (unsigned long long)memfd_bytes(request),
				      (unsigned long long)request->length);
	return ret ? share_failure(registry, ret, error) : 0;
}

static int share_add(struct mrg_registry *registry, const struct registry_request *request,
		     uint32_t protocols, enum mrg_protocol *made, void **entry,
		     struct mrg_error *error)
{
	struct mrg_range *range;
	int ret;

	if (!registry->share)
		return base_error_set(error, -EOPNOTSUPP, "publish memory",
				      "Open the registry with a share.",
				      "The registry has no share.");
	ret = publish(registry, request, protocols, &range, error);
	if (ret)
		return ret;
	*made = mrg_private_range_protocol(range);
	if (!(MRG_PROTO_BIT(*made) & protocols))
		ret = base_error_set(error, -EOPNOTSUPP, "publish memory", "Ask for that protocol.",
				     "The memory can be shared by %s, which was not asked for.",
				     mrg_protocol_name(*made));
	if (ret)
		mrg_share_unpublish(range);
	else
		*entry = range;
	return ret;
}

static int real_add(struct mrg_registry *registry, struct registry_request *request,
		    uint32_t protocols, size_t device, enum mrg_protocol *made, void **entry,
		    struct mrg_error *error)
{
	if (protocols != MRG_PROTO_BIT(MRG_PROTO_VERBS))
		return share_add(registry, request, protocols, made, entry, error);
	*made = MRG_PROTO_VERBS;
	return registry_verbs_add(registry, request, device, entry, error);
}

static int real_remove(struct mrg_registry *registry, enum mrg_protocol protocol, void *entry,
		       struct mrg_error *error)
{
	if (protocol == MRG_PROTO_VERBS)
		return registry_verbs_remove(registry, entry, error);
	mrg_share_unpublish(entry);
	return 0;
}

static size_t real_token(const void *entry, const void **bytes)
{
	return mrg_range_token(entry, bytes);
}

const struct registry_ops registry_ops_real = {
	.device = registry_verbs_device,
	.add = real_add,
	.remove = real_remove,
	.keys = registry_verbs_keys,
	.token = real_token,
};
