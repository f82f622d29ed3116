#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The manual: it formats, it is complete, and its examples say what happens.

load files.sh

setup() {
	cd "$top" || return
	mrguard="${MRGUARD:-$build/mrguard}"
}

@test "every page formats without a warning" {
	for page in lib/man/*.[1-8]; do
		MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" \
			2>&1 >/dev/null | sed "s|^|$page: |"
	done | none
}

@test "every page has a name, a description and a way on" {
	for page in lib/man/*.[1-8]; do
		grep -q '^\.so ' "$page" && continue
		for part in NAME DESCRIPTION 'SEE ALSO'; do
			grep -qE "^\.SH \"?$part\"?\$" "$page" || echo "$page has no $part"
		done
	done | none
}

@test "every command has a page, and every option of it is there" {
	for command in $("$mrguard" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
		page=$(ls lib/man/mrguard-"$command".[18])
		[ -e "$page" ] || { echo "$command has no page"; continue; }
		sed 's/\\-/-/g' "$page" >"$BATS_TEST_TMPDIR/page"
		"$mrguard" "$command" --help | grep -oE '^  *(-., )?--[a-z-]+' | grep -oE -e '--[a-z-]+' |
			grep -vxE -e '--(help|usage|version)' | while read -r option; do
			grep -qF -e "$option" "$BATS_TEST_TMPDIR/page" || echo "$page lacks $option"
		done
	done | none
}

@test "help fits 80 columns, and each option of it is a long one" {
	for command in '' $("$mrguard" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
		# shellcheck disable=SC2086 # no word is no argument
		"$mrguard" $command --help | grep -E -e '.{81}' -e '^  -[^?], '
	done | none
}

@test "mrguard(1) names every command" {
	for command in $("$mrguard" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
		grep -qx "\.BR mrguard-$command ([18])" lib/man/mrguard.1 || echo "$command"
	done | none
}

@test "every page is in a package" {
	for page in lib/man/*.[1-8]; do
		cat debian/*.install | grep -qxF -e "usr/share/man/man${page##*.}" \
			-e "usr/share/man/man${page##*.}/${page##*/}" || echo "$page"
	done | none
}

@test "what a page refers to is there" {
	grep -ohE '^\.BR mrg[a-z_-]* \([1-8]\)' lib/man/*.[1-8] | sort -u |
		sed 's/^\.BR \([a-z_-]*\) (\(.\))/\1.\2/' | while read -r page; do
		[ -e "lib/man/$page" ] || echo "$page is named and not there"
	done | none
}

@test "every function of the public headers is on a page" {
	declared | while read -r function; do
		grep -qw "$function" lib/man/*.3 || echo "$function"
	done | none
}

# The text between .EX and .EE, as typed.
example() { # example PAGE NUMBER
	awk -v n="$2" '/^\.EE/ { on = 0 } on { print } /^\.EX/ { on = ++i == n }' "lib/man/$1" |
		sed -e 's/\\-/-/g' -e 's/\\e$/\\/'
}

# Runs the lines after a $ and compares what they print with the rest.
example_holds() {
	example "$@" | sed -n '/^\$/,/[^\\]$/p' | sed '1s/^\$ //' >"$BATS_TEST_TMPDIR/run"
	example "$@" | sed '/^\$/,/[^\\]$/d' >"$BATS_TEST_TMPDIR/want"
	[ -s "$BATS_TEST_TMPDIR/run" ]
	PATH="$(dirname "$mrguard"):$PATH" bash "$BATS_TEST_TMPDIR/run" |
		diff "$BATS_TEST_TMPDIR/want" -
}

@test "the example of mrg_plan(3) compiles, and makes as many MRs as it says" {
	{
		printf '%s\n' '#include <mrguard/plan.h>' '#include <stdio.h>' \
			'int main(void)' '{'
		example mrg_plan.3 1 | sed 's|\(mrg_plan_free\)|return count != 6; \1|'
		printf '%s\n' 'return 2;' '}'
	} >"$BATS_TEST_TMPDIR/a.c"
	cc -Wall -Werror -Ilib/include -o "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/a.c" \
		-L"$build" -lmrguard -Wl,-rpath,"$build"
	run "$BATS_TEST_TMPDIR/a"
	[ "$status" = 0 ]
	[[ "$output" == *"would wrap"* ]]
}

@test "the examples of mrguard-plan(1) print what the page shows" {
	example_holds mrguard-plan.1 1
	example_holds mrguard-plan.1 2
}
