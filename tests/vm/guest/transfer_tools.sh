#!/bin/bash
# SPDX-License-Identifier: MIT
# `mrguard serve', `copy' and `bench' between two soft-RoCE devices.
. "$MRG_TOP/tests/vm/guest/lib.sh"
cd /tmp || exit
server=''

# serve ARGUMENT...: on rxe_b, any free port
serve() {
	mrguard serve --device=rxe_b --listen=192.0.2.2 --port=0 "$@" >serve.log 2>serve.err &
	server=$!
	for _ in $(seq 100); do
		grep -q 'on port' serve.log && break
		sleep 0.1
	done
	peer=192.0.2.2:$(sed -n 's/.*on port //p' serve.log)
}

end_server() {
	kill "$server" 2>/dev/null
	wait "$server"
}

copy() {
	timeout 60 mrguard copy --device=rxe_a "$@"
}

plan 19
try "two devices come up" rxe_pair rxa rxb
head -c 9000001 /dev/urandom >source
cp source kept

serve source
try "a file is copied from a server" copy "$peer" target
try "and is the same" cmp source target
try "a part of it too" copy --offset=4097 --length=100001 "$peer" part
is "$(tail -c +4098 source | head -c 100001 | sha256sum)" "$(sha256sum <part)" "and is that part"
copy source "$peer" 2>err
is "$?" 3 "a server that is not writable refuses to be written"
try "and says how to change that" grep -q writable err
end_server
is "$?" 0 "a server ends on request"

head -c 2000001 /dev/urandom >new
serve --writable --once source
try "a file is copied to a server" copy new "$peer"
wait "$server"
is "$?" 0 "a server that serves once ends then"
tail -c +2000002 kept >>new
try "and has stored it, and kept the rest" cmp new source

serve --memory=16M --writable
timeout 60 mrguard bench --device=rxe_a --seconds=0.1 --check --sizes=1,64,4097,64K \
	--batch=8 --op=read,write,both --json "$peer" >bench.json
is "$?" 0 "bench measures, and every byte that it checks is right"
cp bench.json "$MRG_OUT/"
is "$(jq '[.rows[] | select(.mib_per_s > 0 and .latency.p50_us > 0 and .checked > 0 and .wrong == 0)] | length' bench.json)" \
	12 "each operation and size has its figures"
timeout 60 mrguard bench --device=rxe_a --seconds=0.1 --sizes=4K --threads=2 --events \
	--only=bandwidth "$peer" >&2
is "$?" 0 "two threads, sleeping for completions"
# Each thread's stack is to take 4 GiB, and there is room for one or two.
(ulimit -s 4194304 && ulimit -v 14000000 && timeout 60 mrguard bench --device=rxe_a --seconds=0.1 \
	--sizes=4K --threads=8 --only=bandwidth "$peer" >&2) 2>err
is "$?" 3 "threads that cannot be started end bench"
try "and it says so" grep -q 'Thread [1-8] of 8 could not be started' err
timeout 60 mrguard bench --device=rxe_a --seconds=0.1 --sizes=64,4K --plot=x.svg "$peer" >&2
try "a plot is drawn" grep -q '<svg' x.svg
PATH=/nowhere "$(command -v mrguard)" bench --device=rxe_a --seconds=0.1 --sizes=64 --only=latency \
	--plot=y.svg "$peer" >/dev/null 2>err
try "without gnuplot, a plot is refused with the way out" grep -q 'Install gnuplot, or take' err
kill -9 "$server"
wait "$server" 2>/dev/null
copy "$peer" target 2>err
is "$?" 3 "without a server, copy fails"
rdma link del rxe_a
rdma link del rxe_b
ip link del rxa
