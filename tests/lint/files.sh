# SPDX-License-Identifier: MIT
# Which files of the tree are what, for the lints.

top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
build=$(cd "$top" && realpath -m "${O:-build}")

# Every file of the tree; build folders and what make leaves are not of it.
files() {
	(cd "$top" && find . \( -path ./.git -o -name 'build*' -path './build*' -o -path "./shared" \) \
		-prune -o -type f -print | sed 's|^\./||' | grep -vE '\.(o|ko|mod|mod\.c|cmd|d)$')
}

c_files() {
	files | grep '\.[ch]$'
}

# Scripts by their first line or their ending.
shell_files() {
	files | grep '\.sh$'
	files | grep -v '\.[^/]*$' | (cd "$top" && LC_ALL=C xargs awk \
		'FNR == 1 { if (/^#!.*\/(env )?(ba)?sh$/) print FILENAME; nextfile }')
}

# headers_of PACKAGE: the public headers of mrguard or mrguard-transfer, by the
# table in mrguard.h
headers_of() {
	awk -v package="$1" -v where="$top/lib/include/mrguard/" '
		/^ \*\// { exit }
		$2 ~ /^mrguard/ { now = $2 }
		now == package { for (i = 2; i <= NF; i++) if ($i ~ /\.h$/) print where $i }
	' "$top/lib/include/mrguard/mrguard.h"
}

# declared [HEADER...]: the functions of these headers, or of all public ones
declared() {
	[ $# -gt 0 ] || set -- "$top"/lib/include/mrguard/*.h
	cat "$@" | tr '\n' ' ' | grep -oE 'MRG_API[^;(]*\(' |
		grep -oE 'mrg_[a-z0-9_]+ *\($' | tr -d ' (' | sort -u
}

# none: the words on standard input are offenders; there are none
none() {
	local offenders
	offenders=$(cat)
	[ -z "$offenders" ] && return
	echo "$offenders"
	return 1
}
