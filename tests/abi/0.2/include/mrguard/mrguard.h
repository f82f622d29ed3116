/* SPDX-License-Identifier: MIT */
/*
 * Everything, of both libraries; link with pkg-config's
 *
 * mrguard		any.h cap.h check.h common.h explain.h fork.h gpu.h host.h plan.h pool.h
 *			region.h share.h vma.h walk.h
 * mrguard-transfer	descriptor.h directory.h gid.h path.h registry.h transfer.h
 */
#ifndef MRGUARD_MRGUARD_H
#define MRGUARD_MRGUARD_H

#include <mrguard/any.h>
#include <mrguard/cap.h>
#include <mrguard/check.h>
#include <mrguard/common.h>
#include <mrguard/descriptor.h>
#include <mrguard/directory.h>
#include <mrguard/explain.h>
#include <mrguard/fork.h>
#include <mrguard/gid.h>
#include <mrguard/gpu.h>
#include <mrguard/host.h>
#include <mrguard/path.h>
#include <mrguard/plan.h>
#include <mrguard/pool.h>
#include <mrguard/region.h>
#include <mrguard/registry.h>
#include <mrguard/share.h>
#include <mrguard/transfer.h>
#include <mrguard/vma.h>
#include <mrguard/walk.h>

#endif /* MRGUARD_MRGUARD_H */
