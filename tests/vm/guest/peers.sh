# SPDX-License-Identifier: MIT
# Programs that others wrote, over rxe: perftest, UCX, libfabric, rdma-core's own
# Python suite.  Each runs under $guard, the words of a command.

limit=120

peers_up() {
	modprobe crc32c 2>/dev/null
	rxe_pair ra rb
	# The link-local addresses, which UCX takes, are tentative at first.
	sleep 3
	mkdir -p /tmp/suite
	cp -r /usr/share/doc/rdma-core/tests /tmp/suite/tests
	gunzip -q /tmp/suite/tests/*.gz
}

peers_down() {
	rdma link del rxe_ra
	rdma link del rxe_rb
	ip link del ra
	modprobe -r rdma_rxe
}

# waits for PORT to be listened on
listening() {
	for _ in $(seq 100); do
		ss -Hltn "sport = :$1" | grep -q . && return
		sleep 0.1
	done
}

# both PORT SERVER... -- CLIENT...: two ends of one program, under $guard
both() {
	local port=$1 server=() pid status
	shift
	while [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	shift
	# shellcheck disable=SC2086 # $guard is words
	timeout -k 5 $limit $guard "${server[@]}" >/tmp/server.out 2>&1 &
	pid=$!
	listening "$port"
	# shellcheck disable=SC2086
	timeout -k 5 $limit $guard "$@" >/tmp/client.out 2>&1
	status=$?
	wait $pid || status=$?
	[ $status = 0 ] || cat /tmp/server.out /tmp/client.out >&2
	return $status
}

port=19000
write_bw() {
	port=$((port + 1))
	both $port ib_write_bw -F -d rxe_ra -p $port -s 65536 -n 300 -- \
		ib_write_bw -F -d rxe_rb -p $port -s 65536 -n 300 192.0.2.1
}
send_lat() {
	port=$((port + 1))
	both $port ib_send_lat -F -d rxe_ra -p $port -s 4096 -n 300 -- \
		ib_send_lat -F -d rxe_rb -p $port -s 4096 -n 300 192.0.2.1
}
ucx() {
	port=$((port + 1))
	export UCX_TLS=rc UCX_IB_GID_INDEX=0 UCX_WARN_UNUSED_ENV_VARS=n
	UCX_NET_DEVICES=rxe_ra:1 both $port ucx_perftest -p $port -t tag_bw -s 65536 -n 200 -- \
		ucx_perftest -p $port 127.0.0.1 -t tag_bw -s 65536 -n 200
}
fabric() {
	port=$((port + 1))
	both $port fi_pingpong -p verbs -e msg -B $port -I 100 -S 65536 -- \
		fi_pingpong -p verbs -e msg -P $port -I 100 -S 65536 192.0.2.1
}
# rdma-core's own suite: the part about MRs, queues and fork, or all of it in
# the full run.  Two of its tests fail by chance with any library: resize_cq on
# 6.12, atomic_write on 6.1.
part='-k MRTest -k CQTest -k PDTest -k ForkAPITest'
[ -z "$MRG_FULL" ] || part=''
# pyverbs NAME: how each test ended is left in /tmp/pyverbs.NAME
pyverbs() {
	# shellcheck disable=SC2086
	(cd /tmp/suite && timeout -k 5 $limit $guard /usr/bin/python3 tests/run_tests.py -v --dev rxe_ra $part >/tmp/client.out 2>&1)
	grep -E ' \.\.\. (ok|FAIL|ERROR|skipped)' /tmp/client.out | grep -viE 'resize.cq|atomic.write' |
		sed "s/skipped.*/skipped/" | sort >"/tmp/pyverbs.$1"
	grep -q '^Ran ' /tmp/client.out || tail -20 /tmp/client.out >&2
	grep -q '^Ran ' /tmp/client.out
}
