#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# README.md says what is so.

load files.sh

setup() {
	cd "$top" || return
	mrguard="${MRGUARD:-$build/mrguard}"
}

@test "its table of kernels is that of the tests" {
	sed -n '/^<!-- kernels/,/^<!-- end/p' README.md | grep -v '^<!--' |
		diff - <(tests/vm/combinations --table)
}

@test "what mrguard check calls tested are the kernels of the tests" {
	tests/vm/combinations --header | diff lib/check/tested.h -
}

@test "every place that it names is there" {
	sed -n '/^## Where things are/,$p' README.md | grep -oE '`[a-z/.]+/?`' | tr -d '`' |
		while read -r path; do
		[ -e "$path" ] || [ -e "kmod/$path" ] || [[ "$path" == /dev/* ]] || echo "$path"
	done | none
}

@test "every folder at the top is in its table" {
	for dir in */; do
		case $dir in build*/ | shared/ | LICENSES/) continue ;; esac
		sed -n '/^## Where things are/,$p' README.md | grep -q "\`$dir" || echo "$dir"
	done | none
}

@test "every make target that it names is one" {
	make -pnq 2>/dev/null | sed -nE 's/^([a-z-]+):.*/\1/p' | sort -u >"$BATS_TEST_TMPDIR/targets"
	grep -qx all "$BATS_TEST_TMPDIR/targets"
	grep -oE '(^|[ `(])make [a-z-]+' README.md | sed 's/.*make //' | sort -u |
		comm -23 - "$BATS_TEST_TMPDIR/targets" | none
}

@test "every command that it names is one" {
	grep -oE '(`|\$ |sudo )mrguard [a-z]+' README.md | sed 's/.*mrguard //' | sort -u |
		while read -r command; do
		"$mrguard" --help | grep -q "^  $command " || echo "$command"
	done | none
}

@test "the version in its commands is the present one" {
	grep -oE 'mrguard/[0-9.]+' README.md | grep -v "^mrguard/$(cat VERSION)\$" | none
}

@test "the picture that it shows is the command's" {
	sed -n '/^    WRAPS/,/^    plan /s/^    //p' README.md | grep -E '^(one MR|plan)' >"$BATS_TEST_TMPDIR/want"
	export LC_ALL=C.UTF-8 TERM=xterm NO_COLOR=1
	script -qefc "stty cols 80; echo 0x100000000 12G | '$mrguard' plan --sg - \
		--iova 0x700000000000 --walker truncating" /dev/null | tr -d '\r' |
		grep -E '^(one MR|plan) .*█' | sed 's/ *$//' | diff - "$BATS_TEST_TMPDIR/want"
}

@test "what it calls a dependency is one, and none is missing" {
	needed=$(make -pn 2>/dev/null | sed -nE 's/^(lib_pkgs|tool_pkgs) := //p' | tr ' ' '\n' |
		sed -e 's/\.0$//' -e 's/^liburcu-.*/liburcu/' -e 's/^zlib$/zlib1g/')
	[ -n "$needed" ]
	for package in $needed; do
		grep -qE "^\|.*$package-dev|^\|.*lib$package-dev" README.md || echo "$package"
	done | none
	sed -n '/^| package/,/^$/p' README.md | grep -oE 'lib[a-z0-9-]+-dev' | while read -r package; do
		grep -q "$package" debian/control || echo "$package"
	done | none
}
