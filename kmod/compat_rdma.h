/* SPDX-License-Identifier: GPL-2.0-only */
/* The RDMA headers, in their own file: only mrguard_walk.ko may see them. */
#ifndef MRG_COMPAT_RDMA_H
#define MRG_COMPAT_RDMA_H

#include <rdma/ib_verbs.h>
#include <rdma/ib_umem.h>

/* Since 15fe76e23615's series (7.1, and the stable series that took it) the
 * iterator has a header of its own.
 */
#ifdef MRG_HAVE_RDMA_ITER
#include <rdma/iter.h>
#endif

#endif /* MRG_COMPAT_RDMA_H */
