/* SPDX-License-Identifier: MIT */
/* The control thread. */
#ifndef TRANSFER_CONTROL_H
#define TRANSFER_CONTROL_H

struct mrg_transfer;

int transfer_control_start(struct mrg_transfer *transfer);
void transfer_control_stop(struct mrg_transfer *transfer);

#endif
