/* SPDX-License-Identifier: GPL-2.0-only */
/* What mrguard_cap.ko tells mrguard.ko. */
#ifndef MRG_CAP_H
#define MRG_CAP_H

#include <linux/types.h>

/* The largest page that an MR may still get: 2 GiB. */
#define MRG_CAP_SHIFT 31

/**
 * struct mrg_cap_state - the probe, and what passed through it since it was loaded
 * @state:	MRG_CAP_INFO_*, of uapi/mrguard.h: WAITING, SET or LOST
 * @asked:	calls of ib_umem_find_best_pgsz()
 * @capped:	of these, calls that offered pages above 2 GiB, and smaller ones
 * @uncapped:	calls that offered pages above 2 GiB only: they were let through
 */
struct mrg_cap_state {
	u32 state;
	u64 asked;
	u64 capped;
	u64 uncapped;
};

/*
 * mrg_cap_read() - the present state
 *
 * mrguard.ko calls it through symbol_get(): the reference to the symbol is what
 * keeps the cap from being unloaded while somebody relies on it.
 */
void mrg_cap_read(struct mrg_cap_state *state);

#endif /* MRG_CAP_H */
