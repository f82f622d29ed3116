#!/bin/bash
# SPDX-License-Identifier: MIT
# What `make demo` shows, inside the VM: the wrap named before it happens, a
# plan that avoids it, the kernel's own functions agreeing, then the bytes, and
# the same plain verbs on the kernel capped.
set -u

bold='' plain=''
[ -n "${NO_COLOR:-}" ] || { bold=$'\e[1m' plain=$'\e[0m'; }

# show COMMAND...: the command, and what it says; a plan at risk ends with 3
show() {
	printf '\n%s$ %s%s\n\n' "$bold" "$*" "$plain"
	"$@"
	local status=$?
	[ "$status" = 0 ] || [ "$status" = 1 ] || exit "$status"
}

modprobe -a edu_bind simgpu mrguard mrguard_walk || exit
importer=$(basename "$(echo /sys/bus/pci/drivers/edu_bind/0000:*)")

cat <<EOF

This is Linux $MRG_KERNEL in a virtual machine. A DMA-BUF of 12 GiB, contiguous
from bus address 0x100000000 on, is about to be registered as one memory region
(MR) with iova 0x700000000000, on a device that takes pages as large as the
kernel likes. The registration would succeed, each transfer would end with
status 0, and two thirds of the bytes would be wrong. No RDMA device is needed to
see that; a PCI function stands in for one.
EOF
show mrguard info
show mrguard plan --dmabuf-from simgpu:12G --importer "$importer" \
	--iova 0x700000000000 --max-page-shift 63
echo
echo "The same buffer where the iova need not be the virtual address:"
show mrguard plan --dmabuf-from simgpu:12G --importer "$importer" \
	--iova 0x700000000000 --max-page-shift 63 --iova-free

# The same function as an RDMA device that moves bytes as the kernel's block
# list says; the library preloaded gives its provider ibv_reg_dmabuf_mr().
modprobe -r edu_bind && modprobe simnic || exit
echo
echo "And with real bytes, moved by an RDMA device that follows the kernel's block list:"
export LD_PRELOAD=$MRG_BUILD/tests/vm/shim/simnic-verbs.so
show mrguard demo

echo
echo "The operator's cure, for every program: a module caps the kernel's page for MRs. The same"
echo "plain verbs, the same buffer (12 GiB, equal modulo 4 GiB), one MR:"
show mrguard cap on
show mrguard selftest --device simnic0 --buffer simgpu:12G,seg=2G --iova 0x700000000000 \
	--blocks 96 --raw
