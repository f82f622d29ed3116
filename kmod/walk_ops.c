/* SPDX-License-Identifier: GPL-2.0-only */
/* mrguard_walk.ko registers its functions here, for MRG_IOC_BLOCKS and MRG_IOC_INFO. */
#include <linux/mutex.h>

#include "internal.h"

static DEFINE_MUTEX(walk_lock);
static const struct mrg_walk_ops *walk_ops;

int mrg_register_walk(const struct mrg_walk_ops *ops)
{
	int ret = 0;

	mutex_lock(&walk_lock);
	if (walk_ops)
		ret = -EBUSY;
	else
		walk_ops = ops;
	mutex_unlock(&walk_lock);
	return ret;
}
EXPORT_SYMBOL_GPL(mrg_register_walk);

/* Called from the owner's exit, so no mrg_walk_get() is outstanding. */
void mrg_unregister_walk(const struct mrg_walk_ops *ops)
{
	mutex_lock(&walk_lock);
	if (walk_ops == ops)
		walk_ops = NULL;
	mutex_unlock(&walk_lock);
}
EXPORT_SYMBOL_GPL(mrg_unregister_walk);

const struct mrg_walk_ops *mrg_walk_get(void)
{
	const struct mrg_walk_ops *ops;

	mutex_lock(&walk_lock);
	ops = walk_ops;
	if (ops && !try_module_get(ops->owner))
		ops = NULL;
	mutex_unlock(&walk_lock);
	return ops;
}

void mrg_walk_put(const struct mrg_walk_ops *ops)
{
	module_put(ops->owner);
}
