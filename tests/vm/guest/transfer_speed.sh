#!/bin/bash
# SPDX-License-Identifier: MIT
# Side by side with perftest, over the same pair of soft-RoCE devices, taking
# turns: 64 KiB and 1 MiB at 0.97 of ib_write_bw and ib_read_bw, messages of 64
# bytes at 0.9 of ib_write_bw's rate, ping-pong at most 1.1 of ib_write_lat.
# Medians of MRG_SPEED_REPEATS (15) rounds; the figures go to $MRG_OUT/speed.
. "$MRG_TOP/tests/vm/guest/lib.sh"
cd /tmp || exit
repeats=${MRG_SPEED_REPEATS:-15}
port=18800
got=$MRG_OUT/speed-runs
mkdir -p "$got"

pair_up() {
	rxe_pair rxa rxb || return
	# Which entry of the GID table has the IPv4 address.
	gid=$(grep -l '^0000:0000:0000:0000:0000:ffff' /sys/class/infiniband/rxe_a/ports/1/gids/* | head -1)
	gid=${gid##*/}
}

# peers PROGRAM SIZE COUNT COLUMN NAME: perftest's own figure
peers() {
	local server
	port=$((port + 1))
	timeout -k 5 60 "$1" -F -d rxe_b -x "$gid" -s "$2" -n "$3" -p $port >/dev/null 2>&1 &
	server=$!
	for _ in $(seq 100); do
		ss -Hltn "sport = :$port" | grep -q . && break
		sleep 0.05
	done
	timeout -k 5 60 "$1" -F -d rxe_a -x "$gid" -s "$2" -n "$3" -p $port 192.0.2.2 2>&1 |
		awk -v column="$4" '$1 == '"$2"' { print $column }' >>"$got/$5"
	wait $server
}

# ours NAME FIELD ARGUMENT...
ours() {
	local name=$1 field=$2
	shift 2
	timeout 60 mrguard bench --device=rxe_a --json "$@" 192.0.2.2:18600 | jq ".rows[0].$field" >>"$got/$name"
}

one_round() {
	peers ib_write_bw 64 2500 5 peer_rate
	ours our_rate 'ops_per_s/1e6' --only=bandwidth --op=write --sizes=64 --seconds=0.4 --batch=32 --flight=4
	peers ib_write_bw 65536 200 4 peer_write_64K
	ours our_write_64K mib_per_s --only=bandwidth --op=write --sizes=64K --seconds=0.4 --batch=1 --flight=128
	peers ib_read_bw 65536 200 4 peer_read_64K
	ours our_read_64K mib_per_s --only=bandwidth --op=read --sizes=64K --seconds=0.4 --batch=1 --flight=128
	peers ib_write_bw 1048576 16 4 peer_write_1M
	ours our_write_1M mib_per_s --only=bandwidth --op=write --sizes=1M --seconds=0.5 --batch=1 --flight=16
	peers ib_read_bw 1048576 16 4 peer_read_1M
	ours our_read_1M mib_per_s --only=bandwidth --op=read --sizes=1M --seconds=0.5 --batch=1 --flight=16
	# Short, and at the mercy of what else runs: twice as often.
	for _ in 1 2; do
		peers ib_write_lat 64 600 5 peer_lat
		ours our_lat latency.p50_us --only=latency --pong --op=write --sizes=64 --seconds=0.3
	done
}

median() {
	sort -g "$got/$1" | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : 0 }'
}

# bar NAME COMPARISON RATIO WORDS
bar() {
	local a b ratio
	a=$(median "our_$1")
	b=$(median "peer_$1")
	ratio=$(awk "BEGIN { if ($b > 0) printf \"%.3f\", $a / $b; else print 0 }")
	printf '%-10s ours %10.3f  perftest %10.3f  ratio %s  (ours: %s; perftest: %s)\n' "$1" "$a" "$b" "$ratio" \
		"$(sort -g "$got/our_$1" | xargs printf '%.4g ')" "$(sort -g "$got/peer_$1" | xargs printf '%.4g ')" |
		tee -a "$MRG_OUT/speed" | sed 's/^/# /'
	is "$(awk "BEGIN { if ($ratio > 0 && $ratio $2 $3) print \"yes\"; else print \"no\" }")" yes "$1: $4 $3 of perftest's"
}

plan 7
try "two devices come up" pair_up
mrguard serve --device=rxe_b --listen=192.0.2.2 --memory=64M --writable >serve.log 2>&1 &
server=$!
sleep 1
for _ in $(seq "$repeats"); do
	one_round 2>&1 | sed 's/^/# /'
done
bar rate '>=' 0.9 "at least"
bar write_64K '>=' 0.97 "at least"
bar read_64K '>=' 0.97 "at least"
bar write_1M '>=' 0.97 "at least"
bar read_1M '>=' 0.97 "at least"
bar lat '<=' 1.1 "at most"
kill $server
wait $server
