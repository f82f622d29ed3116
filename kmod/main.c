/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * /dev/mrguard: the device and its ioctl table.  What each call means is in
 * uapi/mrguard.h.
 *
 * Lock order: the importer's device_lock, then the DMA-BUF's reservation lock.
 * walk_lock, holders_lock and mmap_lock nest in neither, nor in each other.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/nospec.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "internal.h"

union mrg_arg {
	__u32 size;
	struct mrg_ioc_info info;
	struct mrg_ioc_layout layout;
	struct mrg_ioc_blocks blocks;
	struct mrg_ioc_vma vma;
	struct mrg_ioc_holders holders;
};

static int call_info(struct mrg_file *file, union mrg_arg *arg)
{
	return mrg_ioc_info(file, &arg->info);
}

static int call_layout(struct mrg_file *file, union mrg_arg *arg)
{
	return mrg_ioc_layout(&arg->layout);
}

static int call_blocks(struct mrg_file *file, union mrg_arg *arg)
{
	return mrg_ioc_blocks(&arg->blocks);
}

static int call_vma(struct mrg_file *file, union mrg_arg *arg)
{
	return mrg_ioc_vma(&arg->vma);
}

static int call_holders(struct mrg_file *file, union mrg_arg *arg)
{
	return mrg_ioc_holders(&arg->holders);
}

/* By number alone: the size in a command may grow. */
static const struct mrg_call {
	size_t size;
	int (*call)(struct mrg_file *file, union mrg_arg *arg);
} calls[] = {
	[_IOC_NR(MRG_IOC_INFO)] = { sizeof(struct mrg_ioc_info), call_info },
	[_IOC_NR(MRG_IOC_LAYOUT)] = { sizeof(struct mrg_ioc_layout), call_layout },
	[_IOC_NR(MRG_IOC_BLOCKS)] = { sizeof(struct mrg_ioc_blocks), call_blocks },
	[_IOC_NR(MRG_IOC_VMA)] = { sizeof(struct mrg_ioc_vma), call_vma },
	[_IOC_NR(MRG_IOC_HOLDERS)] = { sizeof(struct mrg_ioc_holders), call_holders },
};

static const struct mrg_call *find_call(unsigned int cmd)
{
	unsigned int nr = _IOC_NR(cmd);

	if (_IOC_TYPE(cmd) != MRG_IOC_TYPE || nr >= ARRAY_SIZE(calls))
		return NULL;
	return &calls[array_index_nospec(nr, ARRAY_SIZE(calls))];
}

/* -EOVERFLOW is the one failure that has something to tell: see MRG_IOC_BLOCKS. */
static long mrg_ioctl(struct file *file, unsigned int cmd, unsigned long uarg)
{
	void __user *user = (void __user *)uarg;
	const struct mrg_call *call = find_call(cmd);
	union mrg_arg arg;
	__u32 size;
	int ret;

	if (!call)
		return -ENOTTY;
	if (get_user(size, (__u32 __user *)user))
		return -EFAULT;
	if (size < 2 * sizeof(__u32))
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	ret = copy_struct_from_user(&arg, call->size, user, size);
	if (ret)
		return ret;
	arg.size = size;
	ret = call->call(file->private_data, &arg);
	if (ret && ret != -EOVERFLOW)
		return ret;
	if (copy_to_user(user, &arg, min_t(size_t, size, call->size)))
		return -EFAULT;
	return ret;
}

static int mrg_open(struct inode *inode, struct file *file)
{
	file->private_data = kzalloc(sizeof(struct mrg_file), GFP_KERNEL_ACCOUNT);
	return file->private_data ? 0 : -ENOMEM;
}

static int mrg_release(struct inode *inode, struct file *file)
{
	mrg_let_cap_go(file->private_data);
	kfree(file->private_data);
	return 0;
}

static const struct file_operations mrg_fops = {
	.owner = THIS_MODULE,
	.open = mrg_open,
	.release = mrg_release,
	.unlocked_ioctl = mrg_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

/* Root alone, until a udev rule says who else. */
static struct miscdevice mrg_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = MRG_DEVICE_NAME,
	.fops = &mrg_fops,
	.mode = 0600,
};
module_misc_device(mrg_device);

MODULE_DESCRIPTION("Shows the DMA addresses of DMA-BUFs and the VMAs of processes");
MODULE_AUTHOR("The mrguard authors");
MODULE_LICENSE("GPL");
MODULE_VERSION(MRG_VERSION);
MRG_IMPORT_DMA_BUF;
