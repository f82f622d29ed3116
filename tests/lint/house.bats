#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The rooms of lib and what may lie between them, as HACKING.md prints it; and
# that each rule finds what breaks it.

load files.sh

setup() {
	cd "$top" || return
	tree="$BATS_TEST_TMPDIR/tree"
	objects="$BATS_TEST_TMPDIR/build"
}

# house RULE [TREE [BUILD]]
house() {
	case $1 in
	circles | symbols) python3 tests/lint/house.py "$1" "${2:-.}" "${3:-$build}" ;;
	*) python3 tests/lint/house.py "$1" "${2:-.}" ;;
	esac
}

# A copy of the tree to plant a breach in.
copy() {
	mkdir "$tree"
	cp -r HACKING.md lib kmod "$tree"
}

# planted ROOM/FILE: compiles standard input to an object of a copied build
planted() {
	mkdir -p "$objects"
	[ -d "$objects/lib" ] || (cd "$build" && find lib -name '*.o' -exec cp --parents {} "$objects" \;)
	"${CC:-cc}" -x c -c -o "$objects/lib/$1.o" -
}

@test "a room includes its own files, those of rooms below it, and public headers" {
	house floors | none
}

@test "an include of a room above is found" {
	copy
	echo '#include "region/context.h"' >> "$tree/lib/host/dev.c"
	run house floors "$tree"
	[ "$status" -eq 1 ]
	[[ "$output" == "lib/host/dev.c:"*'"region/context.h": host may include only host, '* ]]
	[ "${#lines[@]}" -eq 1 ]
}

@test "a room that no floor is given is found, and a floor that hangs in the air" {
	copy
	mkdir "$tree/lib/cellar"
	echo '#include "base/opts.h"' > "$tree/lib/cellar/coal.c"
	sed -i 's/^base:$/base: tools/' "$tree/HACKING.md"
	run house floors "$tree"
	[ "$status" -eq 1 ]
	[[ "$output" == *"do not name the room cellar"* ]]
	[[ "$output" == *"base may include tools, which is not below it"* ]]
}

@test "files of lib and kmod use each other in no circle but the allowed ones" {
	house circles | none
}

@test "a circle between files is found" {
	copy
	sed -i '/<!-- circles -->/,/<!-- end circles -->/{/: /d}' "$tree/HACKING.md"
	echo 'void base_b(void); void base_a(void); void base_a(void) { base_b(); }' | planted base/planted_a
	echo 'void base_b(void); void base_a(void); void base_b(void) { base_a(); }' | planted base/planted_b
	run house circles "$tree" "$objects"
	[ "$status" -eq 1 ]
	[[ "$output" == *"base/planted_a base/planted_b (base/planted_a uses base_b of base/planted_b;"* ]]
}

@test "a circle between files of the kernel module is found" {
	copy
	printf 'void mrg_planted(void)\n{\n\tmrg_walk_get();\n}\n' >> "$tree/kmod/blocks.c"
	sed -i 's/^\tmodule_put(ops->owner);/\tmrg_planted();/' "$tree/kmod/walk_ops.c"
	run house circles "$tree"
	[ "$status" -eq 1 ]
	[[ "$output" == *"kmod/blocks kmod/walk_ops (kmod/blocks uses mrg_walk_get"* ]]
}

@test "a third allowed circle, and one that is gone, are found" {
	copy
	sed -i '/<!-- circles -->/a\
base/a base/b: reason\
base/c base/d: reason\
base/e base/f: reason' "$tree/HACKING.md"
	run house circles "$tree"
	[ "$status" -eq 1 ]
	[[ "$output" == *"; 2 is the most"* ]]
	[[ "$output" == *"a circle that is not there: base/a base/b"* ]]
}

@test "a global symbol has its room's prefix or is a declared public function" {
	house symbols | none
}

@test "a symbol of another prefix is found, and a public one that no header declares" {
	echo 'int region_planted, mrg_planted, host_planted;' | planted host/planted
	run house symbols . "$objects"
	[ "$status" -eq 1 ]
	[[ "$output" == *"host/planted: region_planted is neither host_*"* ]]
	[[ "$output" == *"host/planted: mrg_planted is neither host_*"* ]]
	[[ "$output" != *host_planted* ]]
}

@test "no 12 lines of code stand in two rooms" {
	house twice | none
}

@test "12 lines of code that stand in two rooms are found, whatever their comments and spaces" {
	copy
	for i in 1 2 3 4 5 6 7 8 9 10 11; do
		echo "	planted_$i(a,   b); /* $i */"
		echo
	done > "$BATS_TEST_TMPDIR/eleven"
	cat "$BATS_TEST_TMPDIR/eleven" >> "$tree/lib/base/planted.c"
	sed 's/,   /, /; s/1 \*/one */' "$BATS_TEST_TMPDIR/eleven" >> "$tree/lib/host/planted.c"
	run house twice "$tree"
	[ "$status" -eq 0 ]
	echo 'planted_12();' | tee -a "$tree/lib/base/planted.c" >> "$tree/lib/host/planted.c"
	run house twice "$tree"
	[ "$status" -eq 1 ]
	[[ "$output" == "lib/host/planted.c:"*": 12 lines alike in lib/base/planted.c:"* ]]
}
