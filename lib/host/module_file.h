/* SPDX-License-Identifier: MIT */
/* The file that a loaded kernel module came from. */
#ifndef HOST_MODULE_FILE_H
#define HOST_MODULE_FILE_H

#include <stdbool.h>

/** host_module_in_tree() - it is loaded, and was built inside the kernel's tree */
bool host_module_in_tree(const char *sysfs, const char *module);

/**
 * host_module_imports() - whether a loaded module uses a symbol of another
 * @sysfs: "/sys"; the files are below "lib/modules" of its parent
 * @module: as /sys/module names it
 *
 * Return: 1; 0; -errno where that is not known: the file is not there or is
 * compressed, or its build id is not that of the loaded module.
 */
int host_module_imports(const char *sysfs, const char *module, const char *symbol);

#endif
