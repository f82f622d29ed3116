#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs that others wrote end alike with and without mrguard_cap.ko: over rxe,
# whose driver does not ask the kernel for a page, and over simnic, whose does.
. "$MRG_TOP/tests/vm/guest/lib.sh"
. "$MRG_TOP/tests/vm/guest/peers.sh"
guard='env'

# ends PROGRAM...: a line for each, with its exit status
ends() {
	local p
	for p; do
		$p
		echo "$p $?"
	done
}

# both_ways NAME PROGRAM...: without the cap, then with it
both_ways() {
	local name=$1
	shift
	ends "$@" >/tmp/ends.without
	modprobe mrguard_cap
	ends "$@" >/tmp/ends.with
	modprobe -r mrguard_cap
	cat /tmp/ends.with >&2
	is "$(cat /tmp/ends.with)" "$(cat /tmp/ends.without)" "$name end alike"
	is "$(grep -vc ' 0$' /tmp/ends.without)" 0 "$name end well"
}

# over_simnic PROGRAM [ARGUMENT]...
over_simnic() {
	port=$((port + 1))
	both $port "$@" -d simnic0 -p $port -- "$@" -d simnic1 -p $port localhost
}
pingpong() { over_simnic ibv_rc_pingpong -c -n 300; }
simnic_write() { over_simnic ib_write_bw -s 65536 -n 500; }
simnic_read() { over_simnic ib_read_bw -s 1048576 -n 100; }
simnic_events() { over_simnic ib_send_bw -e -s 65536 -n 200; }

plan 7
peers_up
both_ways "perftest, UCX and libfabric over rxe" write_bw send_lat ucx fabric
pyverbs without
modprobe mrguard_cap
pyverbs with
modprobe -r mrguard_cap
try "each test of rdma-core's Python suite ends alike" cmp /tmp/pyverbs.without /tmp/pyverbs.with
is "$(grep -c ok /tmp/pyverbs.with | sed 's/^[1-9].*/some/')" some "and some of them end well"
sed 's/.* //' /tmp/pyverbs.with | sort | uniq -c | sed 's/^/# /'
peers_down
modprobe simnic
both_ways "rdma-core's programs and perftest over simnic" pingpong simnic_write simnic_read simnic_events
try "nothing keeps the modules from being unloaded" modprobe -r simnic
