# SPDX-License-Identifier: MIT
# The unit and the rules that udev reads.

setup() {
	top="$BATS_TEST_DIRNAME/../.."
	# An installed command, so that verify finds one.
	unit="$BATS_TEST_TMPDIR/mrguard-check@.service"
	sed 's|@bindir@/mrguard|/bin/true|' "$top/udev/mrguard-check@.service" > "$unit"
}

@test "systemd-analyze verify has nothing to say about the unit" {
	run systemd-analyze verify --man=no "$unit"
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

@test "systemd-analyze verify has nothing to say about the cap's unit" {
	sed 's|@bindir@/mrguard|/bin/true|' "$top/udev/mrguard-cap.service" > "$BATS_TEST_TMPDIR/mrguard-cap.service"
	run systemd-analyze verify --man=no "$BATS_TEST_TMPDIR/mrguard-cap.service"
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

@test "the cap's unit is wanted by the target that mrguard cap on --boot links it to" {
	target=$(sed -n 's/^WantedBy=//p' "$top/udev/mrguard-cap.service")
	[ -n "$target" ]
	grep -q "/$target.wants\"" "$top/lib/tools/cap_boot.c"
	grep -q "/$target.wants/\"" "$top/lib/host/cap.c"
}

@test "the unit's exposure is below 2.0" {
	exposure=$(systemd-analyze security --offline=true "$unit" |
		sed -n 's/.*exposure level for [^:]*: \([0-9.]*\).*/\1/p')
	echo "# exposure $exposure" >&3
	[ -n "$exposure" ]
	awk -v e="$exposure" 'BEGIN { exit !(e < 2.0) }'
}

@test "the sandbox is what keeps the exposure down" {
	sed -i '/^CapabilityBoundingSet/d; /^DynamicUser/d; /^SystemCallFilter/d' "$unit"
	exposure=$(systemd-analyze security --offline=true "$unit" |
		sed -n 's/.*exposure level for [^:]*: \([0-9.]*\).*/\1/p')
	awk -v e="$exposure" 'BEGIN { exit !(e >= 2.0) }'
}

# Debian 12's udevadm has no verify; trixie's has.
@test "udevadm verify has nothing to say about the rules" {
	cache=${MRGUARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mrguard}
	"$top/tests/vm/chroot" trixie true
	cp "$top/udev/mrguard.rules" "$cache/trixie/tmp/90-mrguard.rules"
	run "$top/tests/vm/chroot" trixie "udevadm verify --resolve-names=never /tmp/90-mrguard.rules"
	rm -f "$cache/trixie/tmp/90-mrguard.rules"
	echo "$output"
	[ "$status" -eq 0 ]
	[[ "$output" != *warning* ]]
	[[ "$output" == *"Success: 1"* ]]
}
