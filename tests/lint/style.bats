#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What all files of the tree have in common.

load files.sh

setup() {
	cd "$top" || return
}

@test "every source file names its licence in one SPDX line" {
	files | grep -E '\.(c|h|sh|bats|cc|py|map|[1-8]|rules|service)$|(^|/)(Makefile|Kbuild)$' |
		while read -r f; do
			[ "$(head -n 3 "$f" | grep -c 'SPDX-License-Identifier: ')" = 1 ] || echo "$f"
		done | none
	shell_files | while read -r f; do
		[ "$(head -n 3 "$f" | grep -c 'SPDX-License-Identifier: ')" = 1 ] || echo "$f"
	done | grep -vx '.ci/run' | none
}

@test "kernel code is GPL-2.0-only, everything else MIT, headers between them both" {
	c_files | while read -r f; do
		licence=$(sed -n '1s/.*SPDX-License-Identifier: //p' "$f" | sed 's| *\*/$||')
		case $f:$licence in
		kmod/uapi/*:"GPL-2.0 WITH Linux-syscall-note") ;;
		tests/kmod/*.h:MIT | tests/kmod/*.h:*"Linux-syscall-note OR MIT") ;;
		kmod/*:GPL-2.0-only | tests/kmod/*:GPL-2.0-only) ;;
		kmod/* | tests/kmod/*) echo "$f: $licence" ;;
		*:MIT) ;;
		*) echo "$f: $licence" ;;
		esac
	done | none
}

@test "C comments are /* */, whitespace is tabs, and none trails" {
	c_files | xargs grep -nE '^[[:space:]]*//' | grep -v ':1:// SPDX' | none
	c_files | xargs grep -nE '[[:space:]]+$' | none
	c_files | xargs grep -nE '^ {8}' | none
}

@test "no line of C is wider than 110 columns but for a message in it" {
	c_files | while read -r f; do
		expand -t 8 "$f" | awk -v f="$f" 'length > 110 && !/"/ { print f ":" NR }'
	done | none
}

@test "no function is longer than 100 lines" {
	c_files | xargs awk 'FNR == 1 { start = 0 }
		/^\{/ { start = FNR }
		/^\}/ { if (start && FNR - start - 1 > 100) print FILENAME ":" start; start = 0 }' | none
}

@test "nothing is left to be done later" {
	c_files | xargs grep -nwE 'TODO|FIXME|XXX' | none
	shell_files | grep -v '^tests/lint/' | xargs grep -nwE 'TODO|FIXME' | none
}

@test "files that are kept in clang-format's form still are" {
	sed 's/#.*//' "$BATS_TEST_DIRNAME/formatted" | xargs clang-format --dry-run -Werror
}

@test "shellcheck has nothing to say" {
	# A file without a first line that names its shell is read by bash.
	shell_files | while read -r f; do
		case $(head -n 1 "$f") in
		'#!'*) shellcheck -S warning "$f" || true ;;
		*) shellcheck -S warning -s bash "$f" || true ;;
		esac
	done | none
}

@test "codespell has nothing to say" {
	files | grep -vE '^LICENSES/|\.host$|^tests/fuzz/corpus/' | xargs codespell -I "$BATS_TEST_DIRNAME/words"
}
