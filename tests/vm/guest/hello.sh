#!/bin/bash
# SPDX-License-Identifier: MIT
# The machine is what the suites rely on.
. "$MRG_TOP/tests/vm/guest/lib.sh"

edu_functions() {
	grep -lx 0x11e8 /sys/bus/pci/devices/*/device | wc -l
}

plan 7
is "$(uname -r)" "$MRG_KERNEL" "the kernel of the table is running"
is "$(edu_functions)" 2 "two edu functions are there"
is "$(grep -cE '^[0-9a-f]{1,9}-4ffffffff : Reserved' /proc/iomem)" 1 \
	"the RAM from 4 to 20 GiB is kept from the kernel"
try "modprobe finds the kernel's modules" modprobe ib_core
try "the kernel loads modules by itself" sh -c 'ip link add d0 type dummy && ip link del d0'
try "the importer's driver binds" sh -c 'modprobe edu_bind && ls /sys/bus/pci/drivers/edu_bind/0000:*'
try "all of them can be unloaded" modprobe -r edu_bind dummy ib_core
