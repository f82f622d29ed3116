// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the device and its port say of themselves, and who lives at an address.
 * The port is of InfiniBand type, or of RoCE type where it has a netdev.
 */
#include <linux/etherdevice.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>

#include "simnic.h"

static DEFINE_MUTEX(devices_lock);
static LIST_HEAD(devices);

/* LID 0 is reserved. */
static u32 port_lid(const struct simnic_dev *dev)
{
	return dev->index + 1;
}

static int simnic_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
			       struct ib_udata *udata)
{
	struct simnic_dev *dev = to_dev(ibdev);

	/* The core itself asks without one, from 7.2 on. */
	if (udata && (udata->inlen || udata->outlen))
		return -EINVAL;
	attr->fw_ver = 1ULL << 32;
	attr->sys_image_guid = ibdev->node_guid;
	attr->vendor_id = dev->pdev->vendor;
	attr->vendor_part_id = dev->pdev->device;
	attr->max_mr_size = dev->max_mr_size;
	attr->page_size_cap = GENMASK_ULL(dev->max_page_shift, PAGE_SHIFT);
	attr->max_qp = 1 << 16;
	attr->max_qp_wr = SIMNIC_MAX_WR;
	attr->max_send_sge = SIMNIC_MAX_SGE;
	attr->max_recv_sge = SIMNIC_MAX_SGE;
	attr->max_sge_rd = SIMNIC_MAX_SGE;
	attr->max_cq = 1 << 16;
	attr->max_cqe = SIMNIC_MAX_CQE;
	attr->max_mr = 1 << 20;
	attr->max_pd = 1 << 16;
	attr->max_qp_rd_atom = SIMNIC_MAX_RD_ATOMIC;
	attr->max_qp_init_rd_atom = SIMNIC_MAX_RD_ATOMIC;
	attr->max_res_rd_atom = attr->max_qp * SIMNIC_MAX_RD_ATOMIC;
	attr->atomic_cap = IB_ATOMIC_GLOB;
	attr->max_pkeys = 1;
	return 0;
}

static int simnic_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct simnic_dev *dev = to_dev(ibdev);
	bool roce = dev->roce;
	bool up = !roce || READ_ONCE(dev->netdev_up);

	attr->state = up ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	attr->phys_state = up ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_DISABLED;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_4096;
	attr->gid_tbl_len = roce ? SIMNIC_GIDS : 1;
	attr->ip_gids = roce;
	attr->pkey_tbl_len = 1;
	attr->max_msg_sz = SIMNIC_MAX_MSG;
	attr->lid = roce ? 0 : port_lid(dev);
	attr->sm_lid = attr->lid;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_EDR;
	return 0;
}

static int simnic_get_port_immutable(struct ib_device *ibdev, u32 port,
				     struct ib_port_immutable *immutable)
{
	bool roce = to_dev(ibdev)->roce;
	struct ib_port_attr attr;
	int err;

	/* ib_query_port() already goes by the flags. */
	immutable->core_cap_flags = roce ? RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP :
					   RDMA_CORE_CAP_PROT_IB;
	err = ib_query_port(ibdev, port, &attr);
	if (err)
		return err;
	immutable->gid_tbl_len = attr.gid_tbl_len;
	immutable->pkey_tbl_len = attr.pkey_tbl_len;
	immutable->max_mad_size = roce ? IB_MGMT_MAD_SIZE : 0;
	return 0;
}

static enum rdma_link_layer simnic_get_link_layer(struct ib_device *ibdev, u32 port)
{
	return to_dev(ibdev)->roce ? IB_LINK_LAYER_ETHERNET : IB_LINK_LAYER_INFINIBAND;
}

static int simnic_query_gid(struct ib_device *ibdev, u32 port, int index, union ib_gid *gid)
{
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	gid->global.interface_id = ibdev->node_guid;
	return 0;
}

static int simnic_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	*pkey = IB_DEFAULT_PKEY_FULL;
	return 0;
}

static bool has_address(struct simnic_dev *dev, const struct rdma_ah_attr *ah)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(ah);
	const struct ib_gid_attr *gid;

	if (!dev->roce)
		return rdma_ah_get_dlid(ah) == port_lid(dev);
	gid = rdma_find_gid(&dev->ib, &grh->dgid, grh->sgid_attr->gid_type, NULL);
	if (IS_ERR(gid))
		return false;
	rdma_put_gid_attr(gid);
	return true;
}

int simnic_find_device(struct simnic_dev *from, const struct rdma_ah_attr *ah)
{
	struct simnic_dev *dev;
	int index = -1;

	mutex_lock(&devices_lock);
	list_for_each_entry(dev, &devices, node) {
		if (dev->roce == from->roce && has_address(dev, ah)) {
			index = dev->index;
			break;
		}
	}
	mutex_unlock(&devices_lock);
	return index;
}

static void port_event(struct simnic_dev *dev, bool up)
{
	struct ib_event event = {
		.device = &dev->ib,
		.element.port_num = SIMNIC_PORT,
		.event = up ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR,
	};

	if (dev->netdev_up == up)
		return;
	WRITE_ONCE(dev->netdev_up, up);
	ib_dispatch_event(&event);
}

static int simnic_netdev_event(struct notifier_block *nb, unsigned long event, void *info)
{
	struct net_device *netdev = netdev_notifier_info_to_dev(info);
	struct simnic_dev *dev;

	mutex_lock(&devices_lock);
	list_for_each_entry(dev, &devices, node) {
		if (dev->netdev != netdev)
			continue;
		port_event(dev, netif_running(netdev) && netif_carrier_ok(netdev));
		if (event == NETDEV_UNREGISTER) {
			/* The core's reference would keep it for ever. */
			ib_device_set_netdev(&dev->ib, NULL, SIMNIC_PORT);
			dev->netdev = NULL;
		}
	}
	mutex_unlock(&devices_lock);
	return NOTIFY_DONE;
}

static struct notifier_block netdev_notifier = {
	.notifier_call = simnic_netdev_event,
};

/* Afterwards the netdev is only compared with, never followed. */
int simnic_port_init(struct simnic_dev *dev, const char *name)
{
	struct net_device *netdev;
	int err = 0;

	if (name && *name) {
		netdev = dev_get_by_name(&init_net, name);
		if (!netdev)
			return -ENODEV;
		dev->roce = true;
		dev->netdev = netdev;
		dev->netdev_up = netif_running(netdev) && netif_carrier_ok(netdev);
		addrconf_addr_eui48((u8 *)&dev->ib.node_guid, (const char *)netdev->dev_addr);
		err = ib_device_set_netdev(&dev->ib, netdev, SIMNIC_PORT);
		dev_put(netdev);
	}
	if (err)
		return err;
	mutex_lock(&devices_lock);
	list_add_tail(&dev->node, &devices);
	mutex_unlock(&devices_lock);
	return 0;
}

void simnic_port_exit(struct simnic_dev *dev)
{
	mutex_lock(&devices_lock);
	list_del(&dev->node);
	mutex_unlock(&devices_lock);
}

int simnic_ports_init(void)
{
	return register_netdevice_notifier(&netdev_notifier);
}

void simnic_ports_exit(void)
{
	unregister_netdevice_notifier(&netdev_notifier);
}

const struct ib_device_ops simnic_port_ops = {
	.query_device = simnic_query_device,
	.query_port = simnic_query_port,
	.get_port_immutable = simnic_get_port_immutable,
	.get_link_layer = simnic_get_link_layer,
	.query_gid = simnic_query_gid,
	.query_pkey = simnic_query_pkey,
};
