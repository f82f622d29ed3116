#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What the libraries export, what their maps list and what their headers promise
# are one thing; the structures that cross the kernel boundary have one layout.

load files.sh

setup() {
	cd "$top" || return
	export LC_ALL=C
}

# exported LIBRARY: NAME@@NODE of each symbol
exported() {
	nm -D --defined-only "$build/lib$1.so" | awk '$2 ~ /[A-Z]/ && $2 != "A" { print $3 }' | sort
}

# mapped LIBRARY: the same, as the map lists them
mapped() {
	awk '/^MRGUARD_/ { node = $1 } /^\t\t[a-z]/ { print substr($1, 1, length($1) - 1) "@@" node }' \
		"lib/lib$1.map" | sort
}

# public, private: those of one kind, without their nodes
public() {
	grep -v '@@MRGUARD_PRIVATE_' | sed 's/@.*//'
}
private() {
	grep '@@MRGUARD_PRIVATE_' | sed 's/@.*//'
}

@test "every public header belongs to one library" {
	diff <(printf '%s\n' "$top"/lib/include/mrguard/*.h | grep -vF /mrguard.h) \
		<({ headers_of mrguard; headers_of mrguard-transfer; } | sort)
}

@test "no header of libmrguard includes one of libmrguard-transfer" {
	headers_of mrguard | xargs grep -HoE '#include <mrguard/.*>' |
		grep -F "$(headers_of mrguard-transfer | sed 's|.*/|<mrguard/|; s|$|>|')" | none
}

@test "exports, map and headers of each library name the same functions" {
	for library in mrguard mrguard-transfer; do
		# shellcheck disable=SC2046 # headers are words
		declared $(headers_of $library) >"$BATS_TEST_TMPDIR/declared"
		[ "$(wc -l <"$BATS_TEST_TMPDIR/declared")" -gt 10 ]
		diff "$BATS_TEST_TMPDIR/declared" <(mapped $library | public)
		diff <(mapped $library) <(exported $library)
	done
}

@test "the private node has what lib/private and the store of failures declare" {
	diff <(declared lib/private/private.h lib/base/error.h) <(exported mrguard | private)
	exported mrguard-transfer | private | none
}

@test "only functions are exported" {
	for library in mrguard mrguard-transfer; do
		nm -D --defined-only "$build/lib$library.so" | awk '$2 ~ /[BDR]/' | none
	done
}

# needed FILE
needed() {
	readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
}

@test "libmrguard needs neither hiredis, liburcu nor libnl-route" {
	needed "$build/libmrguard.so" | grep -E '^lib(hiredis|urcu|nl-route)' | none
	# libibverbs itself brings libnl-route.
	ldd "$build/libmrguard.so" | grep -E 'lib(hiredis|urcu)' | none
	needed "$build/libmrguard-transfer.so" | grep -q '^libhiredis'
	needed "$build/libmrguard-transfer.so" | grep -qx "$(readelf -d "$build/libmrguard.so" |
		sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')"
}

@test "what reads modules' files is linked to their program alone" {
	for library in mrguard mrguard-transfer; do
		needed "$build/lib$library.so" | grep -E '^lib(elf|lzma|zstd|bpf)' | none
	done
	needed "$build/mrguard" | grep -E '^lib(elf|lzma|zstd|bpf)' | none
	[ "$(needed "$build/mrguard-kernelcode" | sed 's/\.so.*//' | sort | xargs)" = \
		"libc libelf liblzma libz libzstd" ]
}

@test "each public header compiles alone, as C11 and C++17, with clang" {
	for header in lib/include/mrguard/*.h; do
		for std in 'c11 -x c' 'c++17 -x c++'; do
			# shellcheck disable=SC2086 # std is three words
			clang -std=$std -Wall -Wextra -Wshadow -Werror -Ilib/include -fsyntax-only "$header"
		done
	done
}

@test "mrguard.h brings every other public header" {
	diff <(cd lib/include && printf '%s\n' mrguard/*.h | grep -vF /mrguard.h) \
		<(sed -n 's/^#include <\(.*\)>/\1/p' lib/include/mrguard/mrguard.h)
}

@test "no public name lacks the prefix" {
	cat lib/include/mrguard/*.h | grep -E '^(#define|struct|enum|union) ' |
		grep -vE '^#define (MRG|MRGUARD)_|^(struct|enum|union) (mrg_|ibv_|verbs_)' | none
}

# structs FLAGS...: the layout of every structure of the ioctl interface
structs() {
	local names
	names=$(sed -n 's/^struct \(mrg_ioc_[a-z]*\) {/\1/p' kmod/uapi/mrguard.h)
	{
		echo '#include "uapi/mrguard.h"'
		for name in $names; do
			echo "struct $name a_$name;"
		done
	} >"$BATS_TEST_TMPDIR/uapi.c"
	"$@" -gdwarf-4 -Ikmod -c -o "$BATS_TEST_TMPDIR/uapi.o" "$BATS_TEST_TMPDIR/uapi.c"
	for name in $names; do
		pahole -C "$name" "$BATS_TEST_TMPDIR/uapi.o"
	done
}

@test "the structures of the ioctl interface have no implicit padding" {
	structs gcc >"$BATS_TEST_TMPDIR/64"
	[ "$(grep -c '^struct' "$BATS_TEST_TMPDIR/64")" -ge 6 ]
	grep -E 'hole|padding' "$BATS_TEST_TMPDIR/64" | none
}

@test "a structure with a hole is found" {
	echo 'struct mrg_hole { int a; long b; } x;' >"$BATS_TEST_TMPDIR/hole.c"
	gcc -gdwarf-4 -c -o "$BATS_TEST_TMPDIR/hole.o" "$BATS_TEST_TMPDIR/hole.c"
	pahole -C mrg_hole "$BATS_TEST_TMPDIR/hole.o" | grep -qE 'hole'
}

# The lines of a layout that say where a member is: name, offset, size.
members() {
	sed -nE 's|.* ([a-z0-9_]+(\[[0-9]+\])?); +/\* +([0-9]+) +([0-9]+) \*/.*|\1 \3 \4|p'
}

@test "32-bit and 64-bit callers see one layout" {
	structs clang --target=x86_64-linux-gnu | members >"$BATS_TEST_TMPDIR/64"
	structs clang --target=i386-linux-gnu -I/usr/include/x86_64-linux-gnu |
		members >"$BATS_TEST_TMPDIR/32"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/64")" -gt 50 ]
	diff "$BATS_TEST_TMPDIR/64" "$BATS_TEST_TMPDIR/32"
}

# ioctls GCC OBJCOPY: the numbers of the ioctls, which hold their structures' sizes
ioctls() {
	{
		echo '#include "uapi/mrguard.h"'
		echo "const unsigned long numbers[] = {"
		sed -n 's/^#define \(MRG_IOC_[A-Z]*\)[[:space:]]*_IOWR.*/	\1,/p' kmod/uapi/mrguard.h
		echo "};"
	} >"$BATS_TEST_TMPDIR/numbers.c"
	"$1" -Ikmod -c -o "$BATS_TEST_TMPDIR/numbers.o" "$BATS_TEST_TMPDIR/numbers.c"
	"$2" -O binary -j .rodata "$BATS_TEST_TMPDIR/numbers.o" /dev/stdout | od -An -v -tx8 -w8
}

@test "callers on amd64 and on arm64 see one layout, and one number of each ioctl" {
	structs gcc | grep -v '^struct' >"$BATS_TEST_TMPDIR/amd64"
	structs aarch64-linux-gnu-gcc | grep -v '^struct' >"$BATS_TEST_TMPDIR/arm64"
	[ "$(members <"$BATS_TEST_TMPDIR/arm64" | wc -l)" -gt 50 ]
	diff "$BATS_TEST_TMPDIR/amd64" "$BATS_TEST_TMPDIR/arm64"
	ioctls gcc objcopy >"$BATS_TEST_TMPDIR/amd64"
	ioctls aarch64-linux-gnu-gcc aarch64-linux-gnu-objcopy >"$BATS_TEST_TMPDIR/arm64"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/arm64")" = 5 ]
	diff "$BATS_TEST_TMPDIR/amd64" "$BATS_TEST_TMPDIR/arm64"
}

@test "the structures of the GPU suite's Python are those of the headers" {
	{
		echo '#include <mrguard/mrguard.h>'
		python3 tests/gpu/torch_segments.py --layout
	} >"$BATS_TEST_TMPDIR/layout.c"
	[ "$(grep -c _Static_assert "$BATS_TEST_TMPDIR/layout.c")" -gt 40 ]
	cc -std=c11 -Ilib/include -fsyntax-only "$BATS_TEST_TMPDIR/layout.c"
}
