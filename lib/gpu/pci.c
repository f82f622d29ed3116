/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gpu/driver.h"

#define RESOURCE_MEM 0x200 /* IORESOURCE_MEM */
#define BARS 6

/*
 * The largest memory BAR: NVIDIA's BAR1 and AMD's BAR0 are the windows into
 * device memory, and no other comes near their size.
 */
uint64_t gpu_bar_size(const struct mrg_gpu *gpu, const char *pci)
{
	uint64_t start, end, flags, largest = 0;
	char path[224], name[16] = "";
	FILE *resource;

	for (size_t i = 0; pci[i] && i < sizeof(name) - 1; i++)
		name[i] = (char)tolower((unsigned char)pci[i]);
	snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/resource", gpu->sysfs, name);
	resource = fopen(path, "re");
	if (!resource)
		return 0;
	for (int bar = 0; bar < BARS; bar++) {
		if (fscanf(resource, "%" SCNx64 " %" SCNx64 " %" SCNx64, &start, &end, &flags) != 3)
			break;
		if (flags & RESOURCE_MEM && end > start && end - start + 1 > largest)
			largest = end - start + 1;
	}
	fclose(resource);
	return largest;
}
