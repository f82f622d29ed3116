#!/bin/bash
# SPDX-License-Identifier: MIT
# The stock programs of rdma-core and perftest run over simnic, to their end
# and in bounded time: polling and with events, one and several queue pairs,
# InfiniBand and RoCE, within one device and between two.
. "$MRG_TOP/tests/vm/guest/lib.sh"

limit=60
port=18600

# both NAME DEVICE-OF-SERVER DEVICE-OF-CLIENT PROGRAM [ARGUMENT]...
both() {
	local name=$1 a=$2 b=$3 server status
	shift 3
	port=$((port + 1))
	echo "== $name: $*" >&2
	timeout -k 5 $limit "$@" -d "$a" -p $port >"$MRG_OUT/server.log" 2>&1 &
	server=$!
	# Each waits for the other end by itself only on one side.
	for _ in $(seq 100); do
		ss -Hltn "sport = :$port" | grep -q . && break
		sleep 0.1
	done
	timeout -k 5 $limit "$@" -d "$b" -p $port localhost >&2
	status=$?
	wait $server || status=$?
	[ $status = 0 ] || cat "$MRG_OUT/server.log" >&2
	is $status 0 "$name"
}

one() {
	local name=$1
	shift
	both "$name" simnic0 simnic0 "$@"
}

plan 18
try "simnic loads" modprobe simnic
one "ibv_rc_pingpong, and it checks what it got" ibv_rc_pingpong -c -n 500
one "ibv_rc_pingpong with events" ibv_rc_pingpong -e -c -n 500
both "ibv_rc_pingpong between two devices" simnic0 simnic1 ibv_rc_pingpong -c -n 500
one "ib_write_bw of 64 KiB" ib_write_bw -s 65536 -n 2000
one "ib_write_bw of 64 B with inline data" ib_write_bw -s 64 -n 5000 -I 64
one "ib_write_bw in both directions" ib_write_bw -b -s 65536 -n 1000
one "ib_write_bw over 4 queue pairs" ib_write_bw -q 4 -s 4096 -n 1000
one "ib_read_bw of 1 MiB" ib_read_bw -s 1048576 -n 200
one "ib_send_bw of 4 KiB" ib_send_bw -s 4096 -n 2000
one "ib_send_bw with events" ib_send_bw -e -s 65536 -n 500
one "ib_write_lat of 64 B" ib_write_lat -s 64 -n 1000
one "ib_send_lat of 64 B" ib_send_lat -s 64 -n 1000
one "ib_send_lat with events" ib_send_lat -e -s 64 -n 500
one "ib_atomic_lat by fetch-and-add" ib_atomic_lat -A FETCH_AND_ADD -n 500

rmmod simnic
ip link add roce0 type dummy
ip link set roce0 up
ip addr add 192.0.2.1/24 dev roce0
try "simnic loads with a netdev" modprobe simnic netdev=roce0
one "ibv_rc_pingpong by GID 1" ibv_rc_pingpong -g 1 -c -n 500
one "ib_write_bw by GID 1" ib_write_bw -x 1 -s 65536 -n 1000
rmmod simnic
ip link del roce0
