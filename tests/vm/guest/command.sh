#!/bin/bash
# SPDX-License-Identifier: MIT
# The command on a real kernel: what it says of a DMA-BUF that an importer maps,
# and whether the kernel's own functions agree.
# shellcheck source=tests/vm/guest/lib.sh
. "$MRG_TOP/tests/vm/guest/lib.sh"

modprobe -a edu_bind simgpu mrguard mrguard_walk >&2
importer=$(basename "$(echo /sys/bus/pci/drivers/edu_bind/0000:*)")
tmp=$(mktemp -d /tmp/command.XXXXXX)

live() { # live SPEC OPTION...
	mrguard plan --dmabuf-from "simgpu:$1" --importer "$importer" "${@:2}"
}

# The page picked, blocks, wrong blocks on a truncating walk, first bad offset.
rows() {
	cat <<-'ROWS'
	0x700000000000 0x100000000 32 3 2 0x100000000
	0x700200000000 0x400000000 33 2 1 0x200000000
	0x700000001000 0x100001000 32 4 2 0x1fffff000
	0x700100000000 0x100000000 34 1 0 null
	0x700080000000 0x100000000 31 6 0 null
	0x700300000000 0x340000000 30 12 0 null
	ROWS
}

# An exact walk gets every row right.
wanted() {
	if [ "$MRG_WALK" = truncating ]; then
		echo "$1 $2 $3 $4"
	else
		echo "$1 $2 0 null"
	fi
}

picked='"\(.page_shift) \(.blocks) \(.wrong_blocks) \(.first_bad_offset)"'

plan 23
is "$(mrguard info --json | jq -r '.module.state, .walk' | xargs)" \
	"loaded $MRG_WALK" "info names the walk of this kernel"

rows >"$tmp/rows"
while read -r iova addr shift blocks wrong bad; do
	live "12G@$addr,fake" --iova "$iova" --max-page-shift 63 --json >"$tmp/json"
	status=$?
	want=$(wanted "$shift" "$blocks" "$wrong" "$bad")
	is "$(jq -r ".single | $picked" "$tmp/json")" "$want" \
		"12 GiB at $addr with iova $iova: the model says $want"
	is "$(jq -r ".kernel | $picked" "$tmp/json")" "$want" \
		"12 GiB at $addr with iova $iova: the kernel says the same"
	expect=0
	[ "${want#* * }" = "0 null" ] || expect=3
	is "$status $(jq .kernel.agrees "$tmp/json")" "$expect true" \
		"12 GiB at $addr with iova $iova: exit status $expect, and they agree"
done <"$tmp/rows"

mrguard layout --dmabuf-from simgpu:12G,seg=1G,fake --importer "$importer" \
	--iova 0x700000000000 --dump "$tmp/list" --json >"$tmp/layout"
is "$(grep -vc '^#' "$tmp/list") $(jq -r .addresses "$tmp/layout")" "1 raw" \
	"root's dump has the raw addresses, joined"
mrguard plan --sg "$tmp/list" --iova 0x700000000000 --json | jq -S 'del(.kernel)' >"$tmp/offline"
live 12G,seg=1G,fake --iova 0x700000000000 --json | jq -S 'del(.kernel)' >"$tmp/live"
is "$(cat "$tmp/offline")" "$(cat "$tmp/live")" \
	"the plan from the dump is the live plan"
mrguard layout --dmabuf-from simgpu:12G,seg=1G,fake --importer "$importer" \
	--iova 0x700000000000 --entries --dump - >"$tmp/list"
is "$(grep -vc '^#' "$tmp/list")" 12 "--entries lists the entries as mapped"

name="memory of udmabuf is planned at the address where it is mapped"
if [ -c /dev/udmabuf ]; then
	mrguard plan --dmabuf-from udmabuf:16M --importer "$importer" --json >"$tmp/json"
	is "$? $(jq -r '.verdict, .kernel.agrees, (.single.page_shift >= 12)' "$tmp/json" | xargs)" \
		"0 safe true true" "$name"
else
	skip "$name" "this kernel is built without udmabuf"
fi
modprobe -r edu_bind simgpu mrguard_walk mrguard >&2
