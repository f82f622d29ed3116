/* SPDX-License-Identifier: MIT */
/* What a completion means, and a request's end in words. */
#ifndef TRANSFER_CAUSE_H
#define TRANSFER_CAUSE_H

#include <stdbool.h>

#include <infiniband/verbs.h>

#include <mrguard/transfer.h>

struct transfer_request;

/* Fills in status and side.  True: worth repeating. */
bool transfer_cause_of(const struct ibv_wc *wc, struct mrg_result *result);
/* Of a request that failed by itself, not by its endpoint. */
void transfer_cause_words(const struct transfer_request *request, struct mrg_error *error);

#endif
