/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/module.h"

static enum module_state state_of(int code)
{
	switch (code) {
	case 0:
		return MODULE_LOADED;
	case -ENOENT:
	case -ENXIO: /* a device node without a driver behind it */
	case -ENODEV:
		return MODULE_ABSENT;
	case -EACCES:
	case -EPERM:
		return MODULE_DENIED;
	case -EPROTO:
		return MODULE_FOREIGN;
	default:
		return MODULE_BROKEN;
	}
}

void module_open(struct module *module)
{
	memset(module, 0, sizeof(*module));
	module->code = mrg_dev_open(&module->dev);
	if (!module->code) {
		module->code = mrg_dev_info(module->dev, &module->info);
		if (module->code)
			mrg_dev_close(module->dev);
	}
	if (module->code)
		module->dev = NULL;
	module->state = state_of(module->code);
}

enum mrg_walk module_ask_walk(struct module *module)
{
	if (module->info.walk != MRG_WALK_UNKNOWN)
		return module->info.walk;
	if (!module->asked.why[0] && module->asked.walk == MRG_WALK_UNKNOWN)
		mrg_walk_ask_host(&module->asked);
	return module->asked.walk;
}

void module_close(struct module *module)
{
	if (module->dev)
		mrg_dev_close(module->dev);
	module->dev = NULL;
}

static const struct {
	const char *name;
	const char *text;
	const char *remedy;
} states[] = {
	[MODULE_LOADED] = { "loaded", "loaded", "" },
	[MODULE_ABSENT] = { "absent", "not loaded",
			    "Load it: sudo modprobe -a mrguard mrguard_walk." },
	[MODULE_DENIED] = { "denied", "no permission to open /dev/mrguard",
			    "Use sudo, or join its group: sudo usermod -aG rdma $USER." },
	[MODULE_FOREIGN] = { "foreign", "loaded, but it speaks another ABI",
			     "Install module and library of one version." },
	[MODULE_BROKEN] = { "broken", "/dev/mrguard cannot be used",
			    "See the kernel log: sudo dmesg." },
};

const char *module_state_name(enum module_state state)
{
	return states[state].name;
}

const char *module_state_text(enum module_state state)
{
	return states[state].text;
}

const char *module_state_remedy(enum module_state state)
{
	return states[state].remedy;
}

struct pci_text pci_text(const struct mrg_pci_addr *pci)
{
	struct pci_text out;

	snprintf(out.text, sizeof(out.text), "%04x:%02x:%02x.%x", pci->domain, pci->bus,
		 pci->device, pci->function);
	return out;
}
