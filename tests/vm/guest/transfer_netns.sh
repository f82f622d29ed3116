#!/bin/bash
# SPDX-License-Identifier: MIT
# `mrguard serve' and its clients in two network namespaces: two hosts, as far
# as addresses, routes and devices go.  Soft-RoCE devices can be moved to a
# namespace from Linux 6.19 on or so; where they cannot, there is nothing to test.
. "$MRG_TOP/tests/vm/guest/lib.sh"
cd /tmp || exit

# name SIDE NUMBER: a namespace with one end of the pair and a device on it
side() {
	ip netns add "$1" &&
		ip link set "nx$1" netns "$1" &&
		ip -n "$1" link set lo up &&
		ip -n "$1" link set "nx$1" mtu 4200 &&
		ip -n "$1" addr add "198.51.100.$2/24" dev "nx$1" &&
		ip -n "$1" link set "nx$1" up &&
		ip netns exec "$1" rdma link add "rxn_$1" type rxe netdev "nx$1"
}

down() {
	ip netns del a
	ip netns del b
	rdma system set netns shared
	rmmod rdma_rxe
} 2>/dev/null

rxe_load
plan 6
if ! { rdma system set netns exclusive && ip link add nxa type veth peer name nxb &&
	side a 1 && side b 2; } >&2; then
	not_ok "two namespaces, each with a device"
	exit 1
fi
if ! { rdma dev set rxn_a netns a && rdma dev set rxn_b netns b; } 2>refused; then
	down
	for _ in 1 2 3 4 5 6; do
		skip "namespaces" "this kernel moves no rxe device to one: $(tail -1 refused)"
	done
	exit
fi
for side in a b; do
	gid_comes rxn_$side ip netns exec $side
done
is "$(ip netns exec a rdma dev | grep -c rxn_)" 1 "each namespace sees its own device alone"
head -c 3000001 /dev/urandom >source
ip netns exec b mrguard serve --device=rxn_b --port=18700 --writable source >serve.log 2>&1 &
server=$!
for _ in $(seq 100); do
	grep -q 'on port' serve.log && break
	sleep 0.1
done
try "a file goes from one to the other" \
	ip netns exec a timeout 60 mrguard copy --device=rxn_a 198.51.100.2:18700 target
try "and is the same" cmp source target
try "and back" ip netns exec a timeout 60 mrguard copy --device=rxn_a target 198.51.100.2:18700
try "bench finds every byte right" ip netns exec a timeout 60 mrguard bench --device=rxn_a \
	--check --seconds=0.2 --sizes=64,64K --op=both 198.51.100.2:18700
ip netns exec a timeout 20 mrguard copy --device=rxn_a 203.0.113.9:18700 x 2>err
is "$?" 3 "an address without a route is refused at once"
cat err >&2
kill "$server"
wait "$server"
down
