# SPDX-License-Identifier: MIT
# fetch SUITE COMPONENT PACKAGE...: packages of another Debian release, unpacked
# in $work/SUITE-COMPONENT/unpacked, beside the system's, which stays as it is.
# The archive is the one that this machine's apt uses.
fetch()
{
	local suite=$1 component=$2 root=$work/$1-$2 uri options
	shift 2
	uri=$(grep -hoE '(URIs: |^deb (\[[^]]*\] )?)https?://[^ ]*' /etc/apt/sources.list \
		/etc/apt/sources.list.d/*.sources 2>/dev/null |
		grep -oE 'https?://[^ ]*debian/?$' | head -n1)
	[ -n "$uri" ] || return 1
	mkdir -p "$root/lists/partial" "$root/cache/archives/partial"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite $component" \
		>"$root/sources.list"
	options=(-o "Dir::State::Lists=$root/lists" -o "Dir::Cache=$root/cache"
		-o "Dir::Etc::SourceList=$root/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o APT::Sandbox::User=root)
	apt-get -qq "${options[@]}" update >"$work/log" 2>&1 || return 1
	(cd "$root" && apt-get -qq "${options[@]}" download "$@") >>"$work/log" 2>&1 || return 1
	for deb in "$root"/*.deb; do
		dpkg -x "$deb" "$root/unpacked"
	done
}
