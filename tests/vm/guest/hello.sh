#!/bin/bash
# SPDX-License-Identifier: MIT
# The machine is what the suites rely on.
. "$MRG_TOP/tests/vm/guest/lib.sh"

edu_functions() {
	grep -lx 0x11e8 /sys/bus/pci/devices/*/device | wc -l
}

# kept: no RAM of the kernel's is in the 16 GiB from 4 GiB on, and there is some
kept() {
	local range from to some=''
	for range in $(sed -n 's/ : System RAM$//p' /proc/iomem); do
		from=$((16#${range%-*})) to=$((16#${range#*-})) some=1
		[ $((from < 20 << 30 && to >= 4 << 30)) = 0 ] || return 1
	done
	[ -n "$some" ]
}

plan 7
is "$(uname -r)" "$MRG_KERNEL" "the kernel of the table is running"
is "$(edu_functions)" 2 "two edu functions are there"
try "the RAM from 4 to 20 GiB is kept from the kernel" kept
try "modprobe finds the kernel's modules" modprobe ib_core
try "the kernel loads modules by itself" sh -c 'ip link add d0 type dummy && ip link del d0'
try "the importer's driver binds" sh -c 'modprobe edu_bind && ls /sys/bus/pci/drivers/edu_bind/0000:*'
try "all of them can be unloaded" modprobe -r edu_bind dummy ib_core
