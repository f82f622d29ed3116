# SPDX-License-Identifier: MIT
# For the build tests: point NAME COMMAND... is a TAP point that shows what a
# failing command said.

n=0
log=$(mktemp)
trap 'rm -rf "$log"' EXIT

point() {
	name=$1
	shift
	n=$((n + 1))
	if "$@" >"$log" 2>&1; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"
		tail -40 "$log" | sed 's/^/# /'
	fi
}
