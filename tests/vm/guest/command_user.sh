#!/bin/bash
# SPDX-License-Identifier: MIT
# The command for a user without privileges, with an RDMA device as importer:
# what is not loaded, what is not permitted, and addresses that give nothing
# away but the plan.
. "$MRG_TOP/tests/vm/guest/lib.sh"

tmp=$(mktemp -d /tmp/command_user.XXXXXX)
chmod 777 "$tmp"
# The build folder may be in a home that others cannot enter.
cp "$MRG_BUILD/mrguard" "$MRG_BUILD"/libmrguard*.so.? "$tmp"

as_user() {
	local PATH=$tmp:$PATH
	setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}

buffer=(--dmabuf-from simgpu:12G,seg=1G,fake --importer simnic0)
iova=(--iova 0x700000000000)
plan_of='{verdict, single, strategy, pieces}'

plan 11
is "$(mrguard info --json | jq -r '.module.state, .walk' | xargs)" "absent $MRG_WALK" \
	"info says that the module is not loaded, and what walk ib_core's file has"

modprobe -a simnic simgpu mrguard mrguard_walk >&2
chmod 666 /dev/simgpu
chmod 600 /dev/mrguard
is "$(as_user mrguard info --json | jq -r .module.state)" denied \
	"info says that the user may not open the device"
# An exact walk, asked from ib_core's file, needs no address.
blind="3 1 unknown null true"
[ "$MRG_WALK" != exact ] || blind="0 1 safe null true"
as_user mrguard plan "${buffer[@]}" "${iova[@]}" --json >"$tmp/blind" 2>"$tmp/message"
is "$? $(grep -c 'no permission to open' "$tmp/message") $(jq -r '.verdict, .kernel, all(.pieces[]; .verdict == "safe")' "$tmp/blind" | xargs)" \
	"$blind" \
	"a user without the right to ask gets a message, and gets a plan that is right for any addresses"

chgrp 65534 /dev/mrguard
chmod 660 /dev/mrguard
is "$(as_user mrguard info --json | jq -r '.rdma[0] | "\(.name) \(.driver)"')" "simnic0 simnic" \
	"info lists the RDMA device with its driver"
pci=$(mrguard info --json | jq -r '.rdma[0].pci')
is "$pci" "$(basename "$(readlink -f /sys/class/infiniband/simnic0/device)")" \
	"info lists the RDMA device with its PCI function"

as_user mrguard layout "${buffer[@]}" "${iova[@]}" --dump "$tmp/user" --json >"$tmp/json"
is "$(jq -r .addresses "$tmp/json")" equivalent "a user's layout has equivalent addresses"
mrguard layout "${buffer[@]}" "${iova[@]}" --dump "$tmp/root" --json >"$tmp/json"
is "$(jq -r '"\(.addresses) \(.rdma) \(.importer)"' "$tmp/json")" "raw simnic0 $pci" \
	"root's layout has raw ones, and names importer and RDMA device"

mrguard plan "${buffer[@]}" "${iova[@]}" --max-mr-size 0 --json | jq -c "$plan_of" >"$tmp/want"
# The options that the dump's head names are those to use.
read -ra options <<<"$(sed -n 's/^# mrguard plan --sg THIS_FILE //p' "$tmp/user")"
as_user mrguard plan --sg "$tmp/user" "${options[@]}" --json | jq -c "$plan_of" >"$tmp/got" || echo none >"$tmp/got"
is "$(cat "$tmp/got")" "$(jq -c 'select(.verdict != null)' "$tmp/want")" \
	"the plan from a user's dump is the plan from the true addresses"
as_user mrguard plan --sg "$tmp/user" --iova 0x700100000000 2>"$tmp/message"
is "$? $(grep -c 'good for --iova 0x700000000000 only' "$tmp/message")" "3 1" \
	"a user's dump is refused for another iova"

disk=$(basename "$(find /sys/bus/pci/drivers/virtio-pci/ -name '0000:*' | head -1)")
as_user mrguard layout --dmabuf-from simgpu:1G,fake --importer "$disk" "${iova[@]}" 2>"$tmp/message"
is "$? $(grep -c CAP_SYS_ADMIN "$tmp/message")" "3 1" \
	"a user may not name a function without an RDMA device"

iommu=$(jq -r .iommu "$tmp/json")
case $iommu:$MRG_WALK in
*:exact) want="none" ;;
translated:*) want="split" ;;
*) want="rebase" ;;
esac
mrguard plan "${buffer[@]}" "${iova[@]}" --iova-free --json >"$tmp/json"
is "$(jq -r '.strategy, (.kernel == null)' "$tmp/json" | xargs)" \
	"$want $([ "$iommu" = translated ] && echo true || echo false)" \
	"with a free iova and IOMMU $iommu the strategy is $want"
modprobe -r simnic simgpu mrguard_walk mrguard >&2
