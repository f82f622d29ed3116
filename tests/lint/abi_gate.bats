#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The public interface is as recorded in tests/abi; the gate sees each kind of
# break; a program of an older release runs.

load files.sh

setup() {
	cd "$top" || return
	export LC_ALL=C
}

@test "the interface is as recorded, or what closed versions need is there" {
	tests/abi/gate check
}

@test "the headers on record are those of the record" {
	for version in tests/abi/*/include; do
		version=${version%/include}
		[ "${version##*/}" = "$(cat tests/abi/open)" ] || continue
		for library in mrguard mrguard-transfer; do
			diff <(INCLUDE="$version/include" tests/abi/gate describe $library) "$version/lib$library.txt"
		done
	done
}

@test "gcc, clang and the arm64 compiler see one interface" {
	for library in mrguard mrguard-transfer; do
		tests/abi/gate describe $library gcc >"$BATS_TEST_TMPDIR/gcc"
		[ "$(grep -c '^struct' "$BATS_TEST_TMPDIR/gcc")" -gt 10 ]
		for compiler in clang aarch64-linux-gnu-gcc; do
			diff "$BATS_TEST_TMPDIR/gcc" <(tests/abi/gate describe $library $compiler)
		done
	done
}

# A copy of what the gate reads, its newest version closed.
closed_copy() {
	export TOP="$BATS_TEST_TMPDIR/tree"
	mkdir -p "$TOP/tests"
	cp -r --parents lib/include lib/*.map "$TOP"
	cp -r tests/abi "$TOP/tests/"
	# The copy's record is of its own headers, so that only what is planted differs.
	tests/abi/gate record
	: >"$TOP/tests/abi/open"
	tests/abi/gate check
}

# refuses TEXT: the gate fails, and says TEXT
refuses() {
	run tests/abi/gate check
	echo "$output"
	[ "$status" -eq 1 ]
	[[ "$output" == *"$1"* ]]
}

@test "a closed version: a function that is gone is refused" {
	closed_copy
	sed -i '/^MRG_API.*mrg_plan_reason(/d' "$TOP/lib/include/mrguard/plan.h"
	sed -i '/mrg_plan_reason;/d' "$TOP/lib/libmrguard.map"
	refuses 'mrg_plan_reason is gone'
}

@test "a closed version: a signature that changed is refused" {
	closed_copy
	sed -i 's/mrg_plan_free(struct mrg_plan \*plan)/mrg_plan_free(struct mrg_plan *plan, int how)/' \
		"$TOP/lib/include/mrguard/plan.h"
	refuses "'void mrg_plan_free(struct mrg_plan *)' has become 'void mrg_plan_free(struct mrg_plan *, int)'"
}

@test "a closed version: a member that moved is refused" {
	closed_copy
	sed -i '/^struct mrg_error {/a int first;' "$TOP/lib/include/mrguard/common.h"
	refuses 'struct mrg_error'
	[[ "$output" == *"'0 4 int code' is gone or has moved"* ]]
}

@test "a closed version: a structure without a size that grew is refused" {
	closed_copy
	sed -i '/^struct mrg_error {/,/^}/ s/^}/uint64_t last;\n}/' "$TOP/lib/include/mrguard/common.h"
	refuses 'struct mrg_error: '
	[[ "$output" == *"bytes have become"* ]]
}

@test "a closed version: an enumerator and a constant that changed are refused" {
	closed_copy
	sed -i 's/^\tMRG_WALK_EXACT\b.*/\tMRG_WALK_EXACT = 99,/' "$TOP/lib/include/mrguard/plan.h"
	sed -i 's/^#define MRG_PLAN_IOVA_FREE .*/#define MRG_PLAN_IOVA_FREE (1u << 9)/' \
		"$TOP/lib/include/mrguard/plan.h"
	refuses "'MRG_WALK_EXACT 1' has become 'MRG_WALK_EXACT 99'"
	[[ "$output" == *"'MRG_PLAN_IOVA_FREE 1' has become 'MRG_PLAN_IOVA_FREE 512'"* ]]
}

@test "a closed version: a new function in its node is refused, in a node of its own it is not" {
	closed_copy
	sed -i '/^MRG_API void mrg_plan_free/i MRG_API void mrg_plan_new(void);' "$TOP/lib/include/mrguard/plan.h"
	cp "$TOP/lib/libmrguard.map" "$BATS_TEST_TMPDIR/map"
	sed -i 's/\t\tmrg_plan_free;/&\n\t\tmrg_plan_new;/' "$TOP/lib/libmrguard.map"
	refuses 'mrg_plan_new is new, and this node is closed'
	printf 'MRGUARD_9.9 {\n\tglobal:\n\t\tmrg_plan_new;\n} MRGUARD_0.2;\n' |
		cat "$BATS_TEST_TMPDIR/map" - >"$TOP/lib/libmrguard.map"
	tests/abi/gate check
}

@test "a closed version: options may grow, reserved words get names, enumerators be added" {
	closed_copy
	sed -i '/^struct mrg_plan_opts {/,/^}/ s/^}/uint64_t last;\n}/' "$TOP/lib/include/mrguard/plan.h"
	sed -i '/^struct mrg_error {/,/^}/ s/uint64_t reserved\[2\]/uint64_t owner, reserved[1]/' \
		"$TOP/lib/include/mrguard/common.h"
	sed -i '/^enum mrg_walk {/,/^}/ s/^}/MRG_WALK_LATER = 77 }/' "$TOP/lib/include/mrguard/plan.h"
	tests/abi/gate check
	grep -q 'owner, reserved' "$TOP/lib/include/mrguard/common.h"
}

@test "an open version: any difference is shown until it is recorded" {
	closed_copy
	echo 0.2 >"$TOP/tests/abi/open"
	sed -i '/^MRG_API.*mrg_plan_reason(/d' "$TOP/lib/include/mrguard/plan.h"
	sed -i '/mrg_plan_reason;/d' "$TOP/lib/libmrguard.map"
	refuses 'make abi-baseline'
	tests/abi/gate record
	tests/abi/gate check
}

@test "a program that was compiled with each version's headers runs with these libraries" {
	for include in tests/abi/*/include; do
		gcc -Wall -Wextra -Werror "-I$include" -o "$BATS_TEST_TMPDIR/program" tests/abi/program.c \
			-L"$build" -lmrguard-transfer -lmrguard
		[ "$(LD_LIBRARY_PATH="$build" "$BATS_TEST_TMPDIR/program")" = "$(cat VERSION)" ]
	done
}

@test "the loader refuses a program of soname 0, by name" {
	echo 'const char *mrg_version(void); const char *mrg_version(void) { return "0.1.0"; }' |
		gcc -shared -fPIC -Wl,-soname,libmrguard.so.0 -o "$BATS_TEST_TMPDIR/old.so" -x c -
	echo 'const char *mrg_version(void); int main(void) { return !mrg_version(); }' |
		gcc -o "$BATS_TEST_TMPDIR/program" -x c - -x none "$BATS_TEST_TMPDIR/old.so"
	if LD_LIBRARY_PATH="$build" "$BATS_TEST_TMPDIR/program" 2>"$BATS_TEST_TMPDIR/said"; then
		return 1
	fi
	cat "$BATS_TEST_TMPDIR/said"
	grep -q 'libmrguard.so.0: cannot open shared object file' "$BATS_TEST_TMPDIR/said"
}
