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

arch_of() {
	case $1 in
	*-amd64) echo amd64 ;;
	*-arm64 | *-arm64-*k) echo arm64 ;;
	*) die "the name of kernel $1 tells no architecture" ;;
	esac
}

# kernel_row NAME: sets release, suite, root, walk and page, and of the
# architecture arch and programs, the folder with what is built for it
kernel_row() {
	local row
	row=$(table kernels | while read -r name rest; do
		[ "$name" != "$1" ] || echo "$name $rest"
	done)
	[ -n "$row" ] || die "no kernel $1 in tests/vm/kernels: $(kernel_list | xargs)"
	# shellcheck disable=SC2034 # the callers read these
	read -r release suite root walk page <<<"$row"
	arch=$(arch_of "$release")
	# shellcheck disable=SC2034
	case $arch in
	amd64) programs=$build ;;
	*) programs=$build/$arch ;;
	esac
}

# where_it_is_built: after kernel_row, sets what the functions below go by: here,
# empty where it is in a chroot, and foreign, what apt appends to the name of a
# package of another architecture than this machine's
where_it_is_built() {
	here='' foreign=''
	case $root in
	host | source) here=1 ;;
	esac
	[ "$arch" = "$(dpkg --print-architecture)" ] || foreign=:$arch
}

# in_root COMMAND...: where this kernel's packages and compiler are
in_root() {
	if [ -n "$here" ]; then
		sh -c "$*" >&2
	else
		"$vm/chroot" ${foreign:+--cross} "$root" "$*" >&2
	fi
}

# get DIR COMMAND: packages that the command leaves in its current folder
get() {
	local there=/tmp/get-$release
	[ -z "$here" ] || there=$1/get
	in_root "rm -rf '$there' && mkdir -p '$there' && cd '$there' && $2"
	[ -n "$here" ] || there=$cache/$root$there
	mv "$there"/*.deb "$1"
	rm -rf "$there"
}

# by_name PACKAGE FOREIGN PATTERN: commands that fetch the kernel's package, and
# of those that it depends on the ones whose names match: from 7.x on an image
# package is split, and headers always were.  FOREIGN goes to the latter's names.
by_name() {
	local download="apt-get -q -o APT::Sandbox::User=root download"
	echo "$download $1$foreign \$(apt-cache depends --important $1$foreign |
		sed -nE 's/^..(Pre)?Depends: <?([^>:]*).*/\2/p' | grep -xE '$3' | sort -u | sed 's/\$/$2/')"
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
