#!/bin/bash
# SPDX-License-Identifier: MIT
# mrguard_cap.ko: plain verbs are wrong without it, right with it, and wrong
# again after it; it follows the RDMA core as that comes and goes.
set -u
. "$(dirname "$0")/lib.sh"

plan 12

# Rows of the demo in which plain verbs, the first column, moved wrong bytes.
wrong_rows() {
	LD_PRELOAD=$MRG_BUILD/tests/vm/shim/simnic-verbs.so mrguard demo 2>&1 |
		tee /dev/stderr | awk -F'|' '$2 ~ /WRONG/ { n++ } END { print n + 0 }'
}

is "$(modprobe mrguard_cap && echo loaded)" loaded "it loads while nothing of RDMA is there"
modprobe -a simgpu mrguard mrguard_walk simnic || exit
before=6
[ "$MRG_WALK" = truncating ] || before=0

is "$(wrong_rows)" 0 "loaded before the RDMA core: no row is wrong"
try "it unloads" modprobe -r mrguard_cap
is "$(wrong_rows)" $before "without it, plain verbs are as the kernel makes them"
try "it loads beside a running RDMA core" modprobe mrguard_cap
is "$(wrong_rows)" 0 "loaded after the RDMA core: no row is wrong"

# All of RDMA goes and comes again.
modprobe -r mrguard_walk simnic && modprobe -r ib_uverbs
rmmod ib_core 2>/dev/null
is "$(grep -c '^ib_uverbs' /proc/modules)" 0 "it does not keep ib_uverbs loaded"
modprobe -a mrguard_walk simnic
is "$(wrong_rows)" 0 "the RDMA core loaded again: no row is wrong"

echo 0 >/sys/kernel/debug/kprobes/enabled
is "$(wrong_rows)" $before "with kprobes disabled it has no effect"
echo 1 >/sys/kernel/debug/kprobes/enabled
is "$(wrong_rows)" 0 "with kprobes enabled again it has"
try "it unloads after all that" modprobe -r mrguard_cap
is "$(wrong_rows)" $before "and the kernel is as it was"
