/* SPDX-License-Identifier: MIT */
/* The kernel module as commands meet it: there, or why not. */
#ifndef TOOLS_MODULE_H
#define TOOLS_MODULE_H

#include <mrguard/host.h>
#include <mrguard/walk.h>

enum module_state {
	MODULE_LOADED,
	MODULE_ABSENT,
	MODULE_DENIED,
	MODULE_FOREIGN, /* speaks another ABI */
	MODULE_BROKEN,
};

struct module {
	enum module_state state;
	int code; /* -errno of opening it */
	struct mrg_dev *dev; /* NULL unless loaded */
	struct mrg_dev_info info;
	struct mrg_walk_answer asked; /* by module_ask_walk() */
};

/** module_open() - look for the module; never fails, @state tells */
void module_open(struct module *module);
void module_close(struct module *module);

/** module_ask_walk() - the kernel's walk, of the module, else of ib_core's file */
enum mrg_walk module_ask_walk(struct module *module);

/** module_state_name() - "loaded", "absent", "denied", "foreign", "broken" */
const char *module_state_name(enum module_state state);
/** module_state_text() - what is the matter, a clause */
const char *module_state_text(enum module_state state);
/** module_state_remedy() - what to do about it; "" where it is loaded */
const char *module_state_remedy(enum module_state state);

struct pci_text {
	char text[24];
};
struct pci_text pci_text(const struct mrg_pci_addr *pci);

#endif
