/* SPDX-License-Identifier: MIT */
/* Makers of DMA-BUFs, for those who have no GPU at hand. */
#ifndef TOOLS_EXPORTER_H
#define TOOLS_EXPORTER_H

#include <mrguard/common.h>

/** exporter_open() - a DMA-BUF from "udmabuf:SIZE" or "simgpu:SPEC"
 *  @fd, @size: OUT the DMA-BUF and its bytes.  Return: 0 or -errno, @error set. */
int exporter_open(const char *spec, int *fd, uint64_t *size, struct mrg_error *error);

#endif
