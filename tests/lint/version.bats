#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# One version, stated in several places.

load files.sh

setup() {
	cd "$top" || return
}

@test "every place that states the version says what VERSION says" {
	tests/lint/version VERSION
}

@test "a place that differs is named" {
	copy="$BATS_TEST_TMPDIR/tree"
	for place in dkms.conf kmod/uapi/mrguard.h CHANGELOG.md lib/libmrguard.map lib/libmrguard-transfer.map \
		debian/changelog debian/libmrguard1.symbols; do
		rm -rf "$copy"
		mkdir -p "$copy/kmod/uapi" "$copy/lib" "$copy/debian" "$copy/tests/lint"
		for f in VERSION dkms.conf kmod/uapi/mrguard.h CHANGELOG.md lib/libmrguard*.map \
			debian/changelog debian/libmrguard1.symbols tests/lint/version; do
			cp "$f" "$copy/$f"
		done
		sed -i 's/0\.2/0.9/' "$copy/$place"
		run sh -c "cd '$copy' && tests/lint/version VERSION"
		echo "$place: $output"
		[ "$status" != 0 ]
		[[ "$output" == *"$place"* ]]
	done
}

@test "the manual pages are of this version" {
	grep -HE '^\.TH ' lib/man/*.[1-8] | grep -v "\"mrguard $(cat VERSION)\"" | none
}
