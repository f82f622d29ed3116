/* SPDX-License-Identifier: MIT */
/* One process and one device, connected to itself, with a bounce buffer. */
#ifndef GUEST_LOOP_H
#define GUEST_LOOP_H

#include "ground.h"

#define BOUNCE (2 * MIB)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct rc_end ends[2];
static struct ibv_context *verbs;
static struct ibv_pd *pd;
static struct ibv_mr *bounce_mr;
static void *bounce;

static inline void open_loop(void)
{
	verbs = rc_device_open("simnic0");
	pd = verbs ? ibv_alloc_pd(verbs) : NULL;
	bounce = malloc(BOUNCE);
	bounce_mr = pd ? ibv_reg_mr(pd, bounce, BOUNCE, ACCESS) : NULL;
	if (!bounce_mr || rc_open(&ends[0], verbs, pd) || rc_open(&ends[1], verbs, pd) ||
	    rc_connect(&ends[0], &ends[1].addr) || rc_connect(&ends[1], &ends[0].addr))
		bail("no loopback on simnic0");
}

static inline void close_loop(void)
{
	rc_close(&ends[0]);
	rc_close(&ends[1]);
	ibv_dereg_mr(bounce_mr);
	free(bounce);
	ibv_dealloc_pd(pd);
	ibv_close_device(verbs);
}

#endif
