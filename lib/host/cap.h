/* SPDX-License-Identifier: MIT */
/* mrguard_cap.ko as the files of a host, live or recorded, show it. */
#ifndef HOST_CAP_H
#define HOST_CAP_H

#include <stdio.h>

#include <mrguard/cap.h>

#include "host/tree.h"

/* From here on an MR can hold a page whose blocks are walked wrong. */
#define HOST_CAP_MIN_LENGTH (1ULL << 32)

bool host_cap_is_loaded(struct mrg_tree *tree);
bool host_cap_is_for_boot(struct mrg_tree *tree);
/* As mrg_cap_before(), of any host. */
ssize_t host_cap_before(struct mrg_tree *tree, struct mrg_cap_mr **mrs);

/* Writes the host's MRs of more than 4 GiB to @buf, one a line; -E2BIG. */
int host_cap_list(char *buf, size_t cap);
/* Reads such lines; @mrs is to be freed.  Return: their number; -ENOMEM. */
ssize_t host_cap_parse(const char *text, struct mrg_cap_mr **mrs);

#endif
