# SPDX-License-Identifier: MIT
# Paths, the tables and locks, for the scripts of this folder (bash).

vm=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$vm/../.." && pwd)
O=${O:-build}
case $O in
/*) build=$O ;;
*) build=$top/$O ;;
esac
cache=${MRGUARD_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/mrguard}
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

say() {
	echo "${0##*/}: $*" >&2
}

die() {
	say "$*"
	exit 1
}

# table FILE: its rows without comments and empty lines
table() {
	sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$vm/$1"
}

kernel_list() {
	table kernels | while read -r name _; do echo "$name"; done
}

# kernel_row NAME: sets release, suite, root and walk
kernel_row() {
	local row
	row=$(table kernels | while read -r name rest; do
		[ "$name" != "$1" ] || echo "$name $rest"
	done)
	[ -n "$row" ] || die "no kernel $1 in tests/vm/kernels: $(kernel_list | xargs)"
	# shellcheck disable=SC2034 # the callers read these
	read -r release suite root walk <<<"$row"
}

# locked NAME COMMAND...: one at a time on this cache
locked() {
	local name=$1
	shift
	mkdir -p "$cache"
	(
		flock 9
		"$@" 9>&-
	) 9>"$cache/.lock-$name"
}

apt() {
	apt-get -q -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=600 \
		-o Dpkg::Use-Pty=0 "$@" >&2
}
