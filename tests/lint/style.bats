#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What all files of the tree have in common.

load files.sh

setup() {
	cd "$top" || return
}

@test "every source file names its licence in one SPDX line" {
	{
		files | grep -E '\.(c|h|sh|bats|cc|py|map|[1-8]|rules|service)$|(^|/)(Makefile|Kbuild)$'
		shell_files | grep -vx '.ci/run'
	} | xargs awk '
		function judge() { if (name && lines != 1) print name ": " lines " lines" }
		FNR == 1 { judge(); name = FILENAME; lines = 0 }
		FNR <= 3 && /SPDX-License-Identifier: / { lines++ }
		END { judge() }' | none
}

@test "kernel code is GPL-2.0-only, everything else MIT, headers between them both" {
	c_files | xargs sed -s -n '1{F;s|.*SPDX-License-Identifier: \(.*\)|\1|;s| *\*/$||;p}' |
		while read -r f && read -r licence; do
			case $f:$licence in
			kmod/uapi/*:"GPL-2.0 WITH Linux-syscall-note") ;;
			tests/kmod/*.h:MIT | lib/tools/simgpu.h:*"Linux-syscall-note OR MIT") ;;
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
	c_files | xargs grep -nE '^ {8}[^\\]*[^ \\]' | none
}

@test "no line of C is wider than 100 columns but for a message in it" {
	c_files | xargs awk '!/"/ {
		width = 0
		for (i = 1; i <= length; i++)
			width += substr($0, i, 1) == "\t" ? 8 - width % 8 : 1
		if (width > 100) print FILENAME ":" FNR
	}' | none
}

@test "no function is longer than 100 lines" {
	c_files | xargs awk 'FNR == 1 { start = 0 }
		/^\{/ { start = FNR }
		/^\}/ { if (start && FNR - start - 1 > 100) print FILENAME ":" start; start = 0 }' | none
}

@test "no figure is left open" {
	files | grep -E '\.(md|[1-8])$' | xargs grep -nE '@[0-9A-Z][^@[:space:]]*@' | none
}

# Perl's patterns, one a line: a sentence with such words says neither who acts nor what happens.
@test "no sentence has the words of tests/lint/phrases" {
	files | grep -vE '^LICENSES/|\.host$|^tests/(fuzz/corpus|abi/[0-9.]+|lint/phrases)' |
		xargs grep -nIHiP -e "$(paste -sd'|' tests/lint/phrases)" | none
}

@test "nothing is left to be done later" {
	c_files | xargs grep -nwE 'TODO|FIXME|XXX' | none
	shell_files | grep -v '^tests/lint/' | xargs grep -nwE 'TODO|FIXME' | none
}

@test "every file of C is in clang-format's form" {
	c_files | xargs clang-format --dry-run -Werror
}

@test "shellcheck has nothing to say" {
	# A file without a first line that names its shell is read by bash.
	named=$(shell_files | xargs awk 'FNR == 1 && /^#!/ { print FILENAME }')
	{
		xargs shellcheck -S warning <<<"$named" || true
		shell_files | grep -vxF "$named" | xargs -r shellcheck -S warning -s bash || true
	} | none
}

@test "codespell has nothing to say" {
	files | grep -vE '^LICENSES/|\.host$|^tests/fuzz/corpus/' | xargs codespell -I "$BATS_TEST_DIRNAME/words"
}
