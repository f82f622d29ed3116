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
