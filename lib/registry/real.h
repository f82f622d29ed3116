/* SPDX-License-Identifier: MIT */
/* Inside the registry: entries of verbs and of shares. */
#ifndef REGISTRY_REAL_H
#define REGISTRY_REAL_H

#include "registry/registry.h"

/* verbs.c */
int registry_verbs_device(struct mrg_registry *registry, struct registry_device *device);
int registry_verbs_add(struct mrg_registry *registry, struct registry_request *request,
		       size_t device, void **entry, struct mrg_error *error);
int registry_verbs_remove(struct mrg_registry *registry, void *entry, struct mrg_error *error);
ssize_t registry_verbs_keys(const void *entry, uint64_t addr, uint64_t length, struct mrg_seg *segs,
			    size_t cap);

#endif
