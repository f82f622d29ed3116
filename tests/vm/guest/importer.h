/* SPDX-License-Identifier: MIT */
/* For the tests of simgpu: the modules, and an edu function as importer. */
#ifndef TESTS_VM_GUEST_IMPORTER_H
#define TESTS_VM_GUEST_IMPORTER_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "uapi/mrguard.h"

#include "tools/simgpu.h"

static int mrguard, simgpu;
static struct mrg_ioc_importer importer;

static int importer_find(void)
{
	DIR *dir = opendir("/sys/bus/pci/drivers/edu_bind");
	struct dirent *e;
	unsigned int domain, bus, dev, fn;
	int found = -1;

	while (dir && (e = readdir(dir)))
		if (sscanf(e->d_name, "%x:%x:%x.%x", &domain, &bus, &dev, &fn) == 4) {
			importer.domain = domain;
			importer.bus = (uint8_t)bus;
			importer.devfn = (uint8_t)(dev << 3 | fn);
			found = 0;
		}
	if (dir)
		closedir(dir);
	return found;
}

static int importer_set_up(void **state)
{
	(void)state;
	if (system("modprobe -a edu_bind simgpu mrguard >&2"))
		return -1;
	mrguard = open("/dev/mrguard", O_RDWR | O_CLOEXEC);
	simgpu = open(SIMGPU_DEVICE, O_RDWR | O_CLOEXEC);
	return mrguard < 0 || simgpu < 0 ? -1 : importer_find();
}

static int importer_tear_down(void **state)
{
	(void)state;
	close(mrguard);
	close(simgpu);
	return system("modprobe -r mrguard simgpu edu_bind >&2");
}

#endif
