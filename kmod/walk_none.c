/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Replaces walk.c where ib_core's functions are missing: a module that logs this and
 * does not load.  DKMS requires each module that dkms.conf names, and mrguard.ko must
 * not fail to build because of this one.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "uapi/mrguard.h"

static int __init mrg_walk_init(void)
{
	pr_err("built without ib_core: its headers or symbols were missing\n");
	return -ENODEV;
}
module_init(mrg_walk_init);

MODULE_DESCRIPTION("Stand-in: mrguard was built without ib_core");
MODULE_AUTHOR("The mrguard authors");
MODULE_LICENSE("GPL");
MODULE_VERSION(MRG_VERSION);
