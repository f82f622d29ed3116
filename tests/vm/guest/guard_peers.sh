#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs that others wrote, over rxe, with and without the guard in turn: they
# end alike, their registrations are counted, and they take as long.
#
# In each pair the guarded run comes first in every second round, so that whoever
# comes later finds the same caches.  Bar: 3% of the sum of all pairs' better
# halves, where the machine is quiet (the full run); the figures are shown.
. "$MRG_TOP/tests/vm/guest/lib.sh"
. "$MRG_TOP/tests/vm/guest/peers.sh"

rounds=8
[ -n "$MRG_FULL" ] || rounds=1
report=/tmp/report

peers_up

now() {
	date +%s%N
}

# alike NAME COMMAND: in turns, plain and guarded; sums the times of both
alike() {
	local name=$1 plain=0 guarded=0 start best_p='' best_g='' order t bad=0
	shift
	rm -f $report.*
	for round in $(seq $rounds); do
		order='plain guarded'
		[ $((round % 2)) = 0 ] || order='guarded plain'
		for way in $order; do
			# The guard's own cost, without that of starting a command.
			guard='env'
			[ $way = plain ] || guard="env LD_PRELOAD=$MRG_BUILD/libmrguard-guard.so LD_AUDIT=$MRG_BUILD/libmrguard-audit.so MRGUARD_GUARD_FORMAT=json MRGUARD_GUARD_REPORT=$report.%p"
			start=$(now)
			"$@" $way || bad=$((bad + 1))
			t=$(($(now) - start))
			if [ $way = plain ]; then
				plain=$((plain + t))
				[ -n "$best_p" ] && [ "$best_p" -lt $t ] || best_p=$t
			else
				guarded=$((guarded + t))
				[ -n "$best_g" ] && [ "$best_g" -lt $t ] || best_g=$t
			fi
		done
	done
	is $bad 0 "$name ends well, $rounds times plain and $rounds times guarded"
	echo "# $name: plain $((plain / rounds / 1000000)) ms, guarded $((guarded / rounds / 1000000)) ms on average; best $((best_p / 1000000)) and $((best_g / 1000000)) ms"
	total_plain=$((total_plain + best_p))
	total_guarded=$((total_guarded + best_g))
}

# counted NAME JQ: over all reports of the last program
counted() {
	cat $report.* | jq -sc '[length, ([.[].registered] | add), ([.[].deregistered] | add), ([.[].refused.count] | add), ([.[].failed.count] | add)]' | sed 's/^/# processes, registered, deregistered, refused, failed: /'
	is "$(cat $report.* | jq -s "$2")" true "$1"
}

total_plain=0
total_guarded=0
plan 12
alike "ib_write_bw of 64 KiB" write_bw
counted "each end of ib_write_bw registers one MR and deregisters it" \
	"length == 2 * $rounds and all(.[]; .registered == 1 and .deregistered == 1 and .refused.count == 0)"
alike "ib_send_lat of 4 KiB" send_lat
counted "each end of ib_send_lat does too" \
	"length == 2 * $rounds and all(.[]; .registered == 1 and .deregistered == 1 and .refused.count == 0)"
alike "ucx_perftest tag_bw" ucx
counted "UCX deregisters all that it registered, and asks for fork protection in vain" \
	"length == 2 * $rounds and all(.[]; .registered >= 1 and .registered == .deregistered and .refused.count == 0 and .fork == \"skipped\")"
alike "fi_pingpong over verbs" fabric
counted "libfabric's registrations are seen, and none is refused" \
	"length == 2 * $rounds and all(.[]; .registered >= 1 and .refused.count == 0)"

alike "rdma-core's Python suite" pyverbs
try "and each of its tests ends as it does without the guard" cmp /tmp/pyverbs.guarded /tmp/pyverbs.plain
sed 's/.* //' /tmp/pyverbs.guarded | sort | uniq -c | sed 's/^/# /'
counted "its registrations are seen" 'any(.[]; .registered > 5) and all(.[]; .refused.count == 0)'
echo "# all: plain $((total_plain / 1000000)) ms, guarded $((total_guarded / 1000000)) ms"
if [ -n "$MRG_FULL" ]; then
	is $((total_guarded * 100 <= total_plain * 103)) 1 "guarded takes at most 3% longer"
else
	skip "guarded takes at most 3% longer" "one round on a busy machine says nothing"
fi
peers_down
