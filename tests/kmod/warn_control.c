/* SPDX-License-Identifier: GPL-2.0-only */
/* warn_control: a WARNING, to see that the test ground takes it for a failure. */
#include <linux/module.h>

static int __init warn_control_init(void)
{
	WARN(1, "on purpose\n");
	return 0;
}

static void __exit warn_control_exit(void)
{
}

module_init(warn_control_init);
module_exit(warn_control_exit);
MODULE_DESCRIPTION("Warns, for a control test");
MODULE_LICENSE("GPL");
