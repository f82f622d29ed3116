// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/debug/simnic/DEVICE/: settings, faults, counters, and under mr/
 * one file for each memory region with the block list that it was given.
 * The README beside this tells what each file means.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "simnic.h"

static struct dentry *root;

static const char *const stat_names[SIMNIC_STATS] = {
	[SIMNIC_MRS_LIVE] = "mrs_live",
	[SIMNIC_MRS_TOTAL] = "mrs_total",
	[SIMNIC_MRS_FAILED] = "mrs_failed",
	[SIMNIC_PDS_LIVE] = "pds_live",
	[SIMNIC_CQS_LIVE] = "cqs_live",
	[SIMNIC_QPS_LIVE] = "qps_live",
	[SIMNIC_CONTEXTS_LIVE] = "contexts_live",
	[SIMNIC_WRS] = "wrs",
	[SIMNIC_WR_ERRORS] = "wr_errors",
	[SIMNIC_BYTES] = "bytes",
	[SIMNIC_RNRS] = "rnrs",
	[SIMNIC_NO_REPLIES] = "no_replies",
	[SIMNIC_STRAYS] = "strays",
	[SIMNIC_CQ_OVERRUNS] = "cq_overruns",
	[SIMNIC_MOVES] = "moves",
};

static int stats_show(struct seq_file *s, void *unused)
{
	struct simnic_dev *dev = s->private;
	int i;

	for (i = 0; i < SIMNIC_STATS; i++)
		seq_printf(s, "%s %lld\n", stat_names[i], atomic64_read(&dev->stats[i]));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

/*
 * A memory region's file: element 0 is the head, then come the runs of DMA
 * addresses that are really the region's, then the blocks.
 */
static void *mr_seq_at(struct seq_file *s, loff_t *pos)
{
	struct simnic_mr *mr = s->private;

	return *pos <= mr->nblocks + mr->nruns ? pos : NULL;
}

static void *mr_seq_start(struct seq_file *s, loff_t *pos)
{
	down_read(&simnic_moves);
	return mr_seq_at(s, pos);
}

static void *mr_seq_next(struct seq_file *s, void *v, loff_t *pos)
{
	++*pos;
	return mr_seq_at(s, pos);
}

static void mr_seq_stop(struct seq_file *s, void *v)
{
	up_read(&simnic_moves);
}

static void mr_show_head(struct seq_file *s, const struct simnic_mr *mr)
{
	seq_printf(s, "key 0x%x\niova 0x%llx\nlength 0x%llx\n", mr->key, mr->iova, mr->length);
	seq_printf(s, "page_shift %u\nblocks %zu\nruns %zu\n", mr->page_shift, mr->nblocks,
		   mr->nruns);
	seq_printf(s, "access 0x%x\ntype %s\n", mr->access,
		   mr->umem->is_dmabuf ? "dmabuf" : "host");
}

static int mr_seq_show(struct seq_file *s, void *v)
{
	struct simnic_mr *mr = s->private;
	u64 i = *(loff_t *)v;

	if (!i)
		mr_show_head(s, mr);
	else if (i <= mr->nruns)
		seq_printf(s, "run 0x%llx 0x%llx\n", mr->runs[i - 1].start, mr->runs[i - 1].end);
	else
		seq_printf(s, "block %llu 0x%llx\n", i - 1 - mr->nruns,
			   mr->blocks[i - 1 - mr->nruns]);
	return 0;
}

static const struct seq_operations mr_sops = {
	.start = mr_seq_start,
	.next = mr_seq_next,
	.stop = mr_seq_stop,
	.show = mr_seq_show,
};
DEFINE_SEQ_ATTRIBUTE(mr);

void simnic_debugfs_add_mr(struct simnic_mr *mr)
{
	char name[16];

	snprintf(name, sizeof(name), "%x", mr->key);
	mr->debugfs = debugfs_create_file(name, 0400, mr->dev->debugfs_mrs, mr, &mr_fops);
}

void simnic_debugfs_remove_mr(struct simnic_mr *mr)
{
	debugfs_remove(mr->debugfs);
}

static int page_shift_get(void *data, u64 *val)
{
	*val = ((struct simnic_dev *)data)->max_page_shift;
	return 0;
}

static int page_shift_set(void *data, u64 val)
{
	struct simnic_dev *dev = data;

	if (val < PAGE_SHIFT || val > 63)
		return -EINVAL;
	WRITE_ONCE(dev->max_page_shift, val);
	dev->ib.attrs.page_size_cap = GENMASK_ULL(val, PAGE_SHIFT);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(page_shift_fops, page_shift_get, page_shift_set, "%llu\n");

static int mr_size_get(void *data, u64 *val)
{
	*val = ((struct simnic_dev *)data)->max_mr_size;
	return 0;
}

static int mr_size_set(void *data, u64 val)
{
	struct simnic_dev *dev = data;

	WRITE_ONCE(dev->max_mr_size, val);
	/* Where the core answers query_device from. */
	dev->ib.attrs.max_mr_size = val;
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(mr_size_fops, mr_size_get, mr_size_set, "%llu\n");

static void add_faults(struct simnic_faults *f, struct dentry *dir)
{
	debugfs_create_u64("fail_reg_nth", 0600, dir, &f->reg_nth);
	debugfs_create_u64("fail_reg_from", 0600, dir, &f->reg_from);
	debugfs_create_u32("fail_reg_errno", 0600, dir, &f->reg_errno);
	debugfs_create_u32("reg_delay_ms", 0600, dir, &f->reg_delay_ms);
	debugfs_create_u64("fail_wr_nth", 0600, dir, &f->wr_nth);
	debugfs_create_u32("fail_wr_status", 0600, dir, &f->wr_status);
	debugfs_create_u32("wr_delay_us", 0600, dir, &f->wr_delay_us);
}

void simnic_debugfs_add(struct simnic_dev *dev)
{
	dev->debugfs = debugfs_create_dir(dev_name(&dev->ib.dev), root);
	dev->debugfs_mrs = debugfs_create_dir("mr", dev->debugfs);
	debugfs_create_file("stats", 0400, dev->debugfs, dev, &stats_fops);
	debugfs_create_file_unsafe("max_page_shift", 0600, dev->debugfs, dev, &page_shift_fops);
	debugfs_create_file_unsafe("max_mr_size", 0600, dev->debugfs, dev, &mr_size_fops);
	debugfs_create_bool("absorb_strays", 0600, dev->debugfs, &dev->absorb);
	debugfs_create_bool("follow_moves", 0600, dev->debugfs, &dev->follow_moves);
	add_faults(&dev->faults, dev->debugfs);
}

void simnic_debugfs_remove(struct simnic_dev *dev)
{
	debugfs_remove(dev->debugfs);
}

void simnic_debugfs_init(void)
{
	root = debugfs_create_dir("simnic", NULL);
}

void simnic_debugfs_exit(void)
{
	debugfs_remove(root);
}
