// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module: parameters, PCI functions, reserved memory, and the refusal to
 * live beside rdma_rxe.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-mapping.h>
#include <linux/idr.h>
#include <linux/io.h>
#include <linux/iommu.h>
#include <linux/ioport.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "simnic.h"

#define SIMNIC_MAX_DEVICES 8

static unsigned int max_page_shift = 63;
module_param(max_page_shift, uint, 0444);
MODULE_PARM_DESC(max_page_shift, "largest page of a memory region, as a power of two (default 63)");

static unsigned long long max_mr_size = U64_MAX;
module_param(max_mr_size, ullong, 0444);
MODULE_PARM_DESC(max_mr_size, "largest memory region in bytes (default: no limit)");

static unsigned int max_seg = SZ_2G;
module_param(max_seg, uint, 0444);
MODULE_PARM_DESC(max_seg, "largest DMA segment in bytes (default 2 GiB, as mlx5 sets it)");

static char *netdev[SIMNIC_MAX_DEVICES];
module_param_array(netdev, charp, NULL, 0444);
MODULE_PARM_DESC(netdev, "netdev of each function, whose port is then of RoCE type");

static unsigned long long window_start = SZ_4G;
module_param(window_start, ullong, 0444);
MODULE_PARM_DESC(window_start,
		 "where the memory kept from the kernel by memmap= starts (default 4 GiB)");

static unsigned long long window_size = 4ULL * SZ_4G;
module_param(window_size, ullong, 0444);
MODULE_PARM_DESC(window_size, "bytes of it, 0 for none (default 16 GiB)");

struct workqueue_struct *simnic_wq;
static DEFINE_IDA(indices);
static void *window;

void *simnic_window(u64 phys, u64 *len)
{
	u64 off = phys - window_start;

	/* Addresses below the window wrap to large offsets. */
	if (!window || off >= window_size)
		return NULL;
	*len = min_t(u64, *len, window_size - off);
	return window + off;
}

/* All of the window must be reserved: any block list may make us write there. */
static int window_map(void)
{
	if (!window_size)
		return 0;
	if (region_intersects(window_start, window_size, IORESOURCE_SYSTEM_RAM, IORES_DESC_NONE) !=
	    REGION_DISJOINT) {
		pr_err("0x%llx bytes at 0x%llx hold the kernel's own memory: boot with memmap=, or give window_size=0\n",
		       window_size, window_start);
		return -EINVAL;
	}
	window = memremap(window_start, window_size, MEMREMAP_WB);
	return window ? 0 : -ENOMEM;
}

static void window_unmap(void)
{
	if (window)
		memunmap(window);
}

/*
 * Unregistering is possible under a live process, as the core can take the
 * device from it, and so the core does not pin the module.  This does.
 */
static int simnic_alloc_ucontext(struct ib_ucontext *uctx, struct ib_udata *udata)
{
	if (!try_module_get(THIS_MODULE))
		return -ENODEV;
	simnic_count(to_dev(uctx->device), SIMNIC_CONTEXTS_LIVE, 1);
	return 0;
}

static void simnic_dealloc_ucontext(struct ib_ucontext *uctx)
{
	simnic_count(to_dev(uctx->device), SIMNIC_CONTEXTS_LIVE, -1);
	module_put(THIS_MODULE);
}

static void simnic_disassociate_ucontext(struct ib_ucontext *uctx)
{
}

static int simnic_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	simnic_count(to_dev(pd->device), SIMNIC_PDS_LIVE, 1);
	return 0;
}

static int simnic_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	simnic_count(to_dev(pd->device), SIMNIC_PDS_LIVE, -1);
	return 0;
}

/* Without get_dma_mr no kernel client binds to the device, only uverbs. */
static const struct ib_device_ops simnic_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_RXE,
	.uverbs_abi_ver = 2,

	.alloc_ucontext = simnic_alloc_ucontext,
	.dealloc_ucontext = simnic_dealloc_ucontext,
	.disassociate_ucontext = simnic_disassociate_ucontext,
	.mmap = simnic_mmap,
	.mmap_free = simnic_mmap_free,
	.alloc_pd = simnic_alloc_pd,
	.dealloc_pd = simnic_dealloc_pd,

	INIT_RDMA_OBJ_SIZE(ib_pd, simnic_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, simnic_ucontext, ib),
};

static int pci_setup(struct pci_dev *pdev)
{
	int err = pcim_enable_device(pdev);

	if (err)
		return err;
	err = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (err)
		return err;
	dma_set_max_seg_size(&pdev->dev, max_seg);
	pci_set_master(pdev);
	return 0;
}

/* Where there is no translation, a DMA address is a physical one. */
static struct iommu_domain *translating_domain(struct device *dev)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);

	return domain && domain->type & __IOMMU_DOMAIN_PAGING ? domain : NULL;
}

static void dev_init(struct simnic_dev *dev, struct pci_dev *pdev)
{
	struct ib_device *ib = &dev->ib;

	dev->pdev = pdev;
	dev->domain = translating_domain(&pdev->dev);
	dev->max_page_shift = max_page_shift;
	dev->max_mr_size = max_mr_size;
	dev->faults.reg_errno = ENOMEM;
	dev->faults.wr_status = IB_WC_GENERAL_ERR;
	spin_lock_init(&dev->fault_lock);
	xa_init_flags(&dev->mrs, XA_FLAGS_ALLOC1);

	ib->node_type = RDMA_NODE_IB_CA;
	ib->phys_port_cnt = SIMNIC_PORT;
	ib->num_comp_vectors = num_possible_cpus();
	/* A locally administered number, made of the letters "simnic". */
	ib->node_guid = cpu_to_be64(0x0273696d6e696300ULL + dev->index);
	ib->dev.parent = &pdev->dev;
	ib->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
			       BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
	snprintf(ib->node_desc, sizeof(ib->node_desc), "simnic test device %d", dev->index);

	ib_set_device_ops(ib, &simnic_ops);
	ib_set_device_ops(ib, &simnic_port_ops);
	ib_set_device_ops(ib, &simnic_cq_ops);
	ib_set_device_ops(ib, &simnic_mr_ops);
	ib_set_device_ops(ib, &simnic_qp_ops);
}

static int simnic_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct simnic_dev *dev;
	int err = pci_setup(pdev);

	if (err)
		return err;
	dev = ib_alloc_device(simnic_dev, ib);
	if (!dev)
		return -ENOMEM;
	dev->index = ida_alloc_max(&indices, SIMNIC_MAX_DEVICES - 1, GFP_KERNEL);
	if (dev->index < 0) {
		err = dev->index;
		goto dealloc;
	}
	dev_init(dev, pdev);
	err = simnic_port_init(dev, netdev[dev->index]);
	if (err)
		goto free_index;
	err = ib_register_device(&dev->ib, "simnic%d", &pdev->dev);
	if (err)
		goto port_exit;
	simnic_debugfs_add(dev);
	pci_set_drvdata(pdev, dev);
	return 0;

port_exit:
	simnic_port_exit(dev);
free_index:
	ida_free(&indices, dev->index);
dealloc:
	ib_dealloc_device(&dev->ib);
	return err;
}

static void simnic_remove(struct pci_dev *pdev)
{
	struct simnic_dev *dev = pci_get_drvdata(pdev);

	ib_unregister_device(&dev->ib);
	simnic_debugfs_remove(dev);
	simnic_port_exit(dev);
	ida_free(&indices, dev->index);
	xa_destroy(&dev->mrs);
	ib_dealloc_device(&dev->ib);
}

static const struct pci_device_id simnic_ids[] = { { PCI_DEVICE(0x1234, 0x11e8) }, {} };

/* No MODULE_DEVICE_TABLE: nothing loads this module but a test. */
static struct pci_driver simnic_driver = {
	.name = "simnic",
	.id_table = simnic_ids,
	.probe = simnic_probe,
	.remove = simnic_remove,
};

/*
 * rdma_rxe takes every device with its driver id for its own, in its netdev
 * notifier and when it is unloaded, and would read our structure as its own.
 */
static const char rxe[] = "rdma_rxe";

static bool rxe_loaded(void)
{
	struct kobject *kobj = kset_find_obj(THIS_MODULE->mkobj.kobj.kset, rxe);

	kobject_put(kobj);
	return kobj;
}

static int module_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct module *mod = data;

	if (event != MODULE_STATE_COMING || strcmp(mod->name, rxe))
		return NOTIFY_DONE;
	pr_err("%s cannot be loaded beside simnic\n", rxe);
	return notifier_from_errno(-EBUSY);
}

static struct notifier_block module_notifier = {
	.notifier_call = module_event,
};

static int __init check_params(void)
{
	if (max_page_shift < PAGE_SHIFT || max_page_shift > 63) {
		pr_err("max_page_shift=%u: %d to 63 are possible\n", max_page_shift, PAGE_SHIFT);
		return -EINVAL;
	}
	if (rxe_loaded()) {
		pr_err("%s is loaded: unload it first\n", rxe);
		return -EBUSY;
	}
	return 0;
}

static int __init simnic_init(void)
{
	int err = check_params();

	if (err)
		return err;
	err = register_module_notifier(&module_notifier);
	if (err)
		return err;
	err = window_map();
	if (err)
		goto unregister_module;
	simnic_wq = alloc_workqueue("simnic", WQ_UNBOUND, 0);
	if (!simnic_wq) {
		err = -ENOMEM;
		goto unmap;
	}
	simnic_debugfs_init();
	err = simnic_ports_init();
	if (err)
		goto destroy_wq;
	err = pci_register_driver(&simnic_driver);
	if (err)
		goto ports_exit;
	return 0;

ports_exit:
	simnic_ports_exit();
destroy_wq:
	simnic_debugfs_exit();
	destroy_workqueue(simnic_wq);
unmap:
	window_unmap();
unregister_module:
	unregister_module_notifier(&module_notifier);
	return err;
}

static void __exit simnic_exit(void)
{
	pci_unregister_driver(&simnic_driver);
	simnic_ports_exit();
	simnic_debugfs_exit();
	destroy_workqueue(simnic_wq);
	window_unmap();
	unregister_module_notifier(&module_notifier);
}

module_init(simnic_init);
module_exit(simnic_exit);

MODULE_DESCRIPTION("RDMA device for tests, on QEMU's edu function");
MODULE_LICENSE("GPL");
