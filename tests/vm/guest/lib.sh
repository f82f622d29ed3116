# SPDX-License-Identifier: MIT
# TAP for guest tests in shell.

tap_n=0

plan() {
	echo "1..$1"
}

ok() {
	tap_n=$((tap_n + 1))
	echo "ok $tap_n - $1"
}

not_ok() {
	tap_n=$((tap_n + 1))
	echo "not ok $tap_n - $1"
}

# is GOT WANTED NAME
is() {
	if [ "$1" = "$2" ]; then
		ok "$3"
	else
		not_ok "$3"
		echo "# got '$1', wanted '$2'"
	fi
}

# try NAME COMMAND...: the command succeeds
try() {
	local name=$1
	shift
	if "$@" >&2; then ok "$name"; else not_ok "$name"; fi
}

# skip NAME REASON
skip() {
	tap_n=$((tap_n + 1))
	echo "ok $tap_n - $1 # SKIP $2"
}

# ---- soft RoCE ----

# rxe asks for crc32 by name, and a guest's kernel finds no modprobe.
rxe_load() {
	modprobe -q crc32_generic
	modprobe rdma_rxe
}

# gid_comes DEVICE [COMMAND...]: waits for its IPv4 address in the GID table, which
# the kernel fills a while later; looks by COMMAND, in a namespace say
gid_comes() {
	local device=$1
	shift
	for _ in $(seq 100); do
		# shellcheck disable=SC2016 # the name is for the inner shell
		"$@" sh -c 'grep -qs 0000:ffff: /sys/class/infiniband/$0/ports/1/gids/[0-7]' "$device" && return
		sleep 0.1
	done
}

# rxe_pair NETDEV NETDEV: the two ends of a veth pair in this namespace, at
# 192.0.2.1 and .2, and the devices rxe_A and rxe_B on them
rxe_pair() {
	local f n=0
	rxe_load || return
	ip link add "$1" type veth peer name "$2" || return
	for f in all default "$1" "$2"; do
		echo 0 >"/proc/sys/net/ipv4/conf/$f/rp_filter"
		echo 1 >"/proc/sys/net/ipv4/conf/$f/accept_local"
	done
	for f in "$1" "$2"; do
		n=$((n + 1))
		ip link set "$f" mtu 4200
		ip addr add "192.0.2.$n/24" dev "$f"
		ip link set "$f" up
		rdma link add "rxe_${f#rx}" type rxe netdev "$f" || return
		gid_comes "rxe_${f#rx}"
	done
}
