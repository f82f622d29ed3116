/* SPDX-License-Identifier: MIT */
/* The RDMA devices that sysfs shows, and the PCI functions behind them. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mrguard/host.h>

#include "host/pick.h"

#include "host/files.h"

#define DEFAULT_SYSFS "/sys"

static bool valid_name(const char *name)
{
	return name[0] && name[0] != '.' && !strchr(name, '/') &&
	       strlen(name) < sizeof(((struct mrg_rdma_dev *)0)->name);
}

/* Cuts what does not fit: a name that long is shown, never looked up. */
static void copy_name(char *out, size_t size, const char *name)
{
	size_t len = strnlen(name, size - 1);

	memcpy(out, name, len);
	out[len] = '\0';
}

static void first_entry(const char *path, char *out, size_t size)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;

	out[0] = '\0';
	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' && (!out[0] || strcmp(entry->d_name, out) < 0))
			copy_name(out, size, entry->d_name);
	closedir(dir);
}

static int hex_field(const char **text, size_t min_digits, size_t max_digits, uint32_t max,
		     uint32_t *value)
{
	size_t digits = strspn(*text, "0123456789abcdefABCDEF");
	unsigned long parsed;

	if (digits < min_digits || digits > max_digits)
		return -EINVAL;
	parsed = strtoul(*text, NULL, 16);
	if (parsed > max)
		return -EINVAL;
	*value = (uint32_t)parsed;
	*text += digits;
	return 0;
}

/*
 * [DOMAIN:]BUS:DEVICE.FUNCTION.  Domains of more than four digits exist
 * (VMD, Hyper-V).
 */
static int parse_pci(const char *text, struct mrg_pci_addr *pci)
{
	const char *first = strchr(text, ':');
	uint32_t domain = 0, bus, device, function;

	if (first && strchr(first + 1, ':')) {
		if (hex_field(&text, 4, 8, UINT32_MAX, &domain) || *text++ != ':')
			return -EINVAL;
	}
	if (hex_field(&text, 2, 2, 0xff, &bus) || *text++ != ':' ||
	    hex_field(&text, 2, 2, 0x1f, &device) || *text++ != '.' ||
	    hex_field(&text, 1, 1, 7, &function) || *text)
		return -EINVAL;
	*pci = (struct mrg_pci_addr){ .domain = domain,
				      .bus = (uint8_t)bus,
				      .device = (uint8_t)device,
				      .function = (uint8_t)function };
	return 0;
}

/*
 * The PCI function at or above a device directory.  Some RDMA devices hang
 * below an auxiliary device of the function, so this climbs.
 */
static bool pci_above(const char *device_dir, struct mrg_pci_addr *pci, char *driver,
		      size_t driver_size)
{
	char dir[PATH_MAX], subsystem[32];
	char *slash;

	if (!realpath(device_dir, dir))
		return false;
	while ((slash = strrchr(dir, '/'))) {
		host_link_name(subsystem, sizeof(subsystem), "%s/subsystem", dir);
		if (!strcmp(subsystem, "pci") && !parse_pci(slash + 1, pci)) {
			host_link_name(driver, driver_size, "%s/driver", dir);
			return true;
		}
		*slash = '\0';
	}
	return false;
}

/*
 * RoCE ports name their netdev beside the GIDs, software devices in "parent";
 * others have it under the function that both share.
 */
static void find_netdev(const char *dir, char *out, size_t size)
{
	static const char *const files[] = { "ports/1/gid_attrs/ndevs/0", "parent" };
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (host_first_line(out, size, "%s/%s", dir, files[i]) && out[0])
			return;
	snprintf(path, sizeof(path), "%s/device/net", dir);
	first_entry(path, out, size);
}

static void read_device(const char *sysfs, const char *name, struct mrg_rdma_dev *dev)
{
	char dir[PATH_MAX / 2], path[PATH_MAX];

	memset(dev, 0, sizeof(*dev));
	copy_name(dev->name, sizeof(dev->name), name);
	snprintf(dir, sizeof(dir), "%s/class/infiniband/%s", sysfs, name);
	snprintf(path, sizeof(path), "%s/device", dir);
	dev->has_pci = pci_above(path, &dev->pci, dev->driver, sizeof(dev->driver));
	if (!dev->has_pci)
		host_link_name(dev->driver, sizeof(dev->driver), "%s/device/driver", dir);
	find_netdev(dir, dev->netdev, sizeof(dev->netdev));
}

static int visible(const struct dirent *entry)
{
	return valid_name(entry->d_name);
}

ssize_t mrg_rdma_list(const char *sysfs, struct mrg_rdma_dev **devs)
{
	char path[PATH_MAX];
	struct mrg_rdma_dev *list;
	struct dirent **names;
	int count;

	sysfs = sysfs ? sysfs : DEFAULT_SYSFS;
	snprintf(path, sizeof(path), "%s/class/infiniband", sysfs);
	count = scandir(path, &names, visible, alphasort);
	if (count < 0 && errno != ENOENT)
		return -errno;
	if (count < 0)
		count = 0; /* ib_core is not loaded */

	list = calloc((size_t)count + 1, sizeof(*list));
	for (int i = 0; i < count; i++) {
		if (list) {
			read_device(sysfs, names[i]->d_name, &list[i]);
			list[i].pick = host_pick_read(sysfs, names[i]->d_name);
		}
		free(names[i]);
	}
	if (count)
		free(names);
	if (!list)
		return -ENOMEM;
	*devs = list;
	return count;
}

static int find_function(const char *sysfs, const char *name, struct mrg_pci_addr *pci)
{
	struct mrg_pci_addr parsed;
	char path[PATH_MAX];

	if (parse_pci(name, &parsed))
		return -EINVAL;
	snprintf(path, sizeof(path), "%s/bus/pci/devices/%04x:%02x:%02x.%x", sysfs, parsed.domain,
		 parsed.bus, parsed.device, parsed.function);
	if (access(path, F_OK))
		return -ENODEV;
	*pci = parsed;
	return 0;
}

int mrg_importer_find(const char *sysfs, const char *name, struct mrg_pci_addr *pci)
{
	struct mrg_rdma_dev dev;
	char path[PATH_MAX];

	sysfs = sysfs ? sysfs : DEFAULT_SYSFS;
	if (!name || !valid_name(name))
		return -EINVAL;
	if (strchr(name, ':'))
		return find_function(sysfs, name, pci);
	snprintf(path, sizeof(path), "%s/class/infiniband/%s", sysfs, name);
	if (access(path, F_OK))
		return -ENODEV;
	read_device(sysfs, name, &dev);
	if (!dev.has_pci)
		return -ENODEV;
	*pci = dev.pci;
	return 0;
}
