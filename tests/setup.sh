# SPDX-License-Identifier: MIT
# Set-up that check and demo share (bash, sourced from the top folder).

export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
step_start=$SECONDS

# step NAME: says how long the step before took, and begins another
step() {
	[ -z "${step_name:-}" ] || echo "$step_name: $((SECONDS - step_start)) s" >&2
	step_name=$1
	step_start=$SECONDS
	[ -z "$1" ] || echo "$1 ..." >&2
}

# What root built for sudo's user shall not be in that user's way.
give_back() {
	[ -z "${SUDO_UID:-}" ] || [ ! -d "$1" ] || chown -R "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$1"
}

need_root() {
	[ "$(id -u)" = 0 ] || {
		echo "${0##*/} needs root: it installs packages and boots virtual machines" >&2
		exit 2
	}
}

# is_installed NAME[:ARCH]: without ARCH it is this machine's that counts
is_installed() {
	local arch=${1##*:}
	[ "$arch" != "$1" ] || arch="all|$(dpkg --print-architecture)"
	dpkg-query -W -f '${Architecture} ${db:Status-Status}\n' "$1" 2>/dev/null |
		grep -qxE "($arch) installed"
}

# install_packages FILE LOG: those that the file names, one a line, and are
# missing.  The package lists are brought up to date where one is, and where
# they are older than a day: the kernels are fetched by name too.  NAME:ARCH is
# another architecture's, which dpkg --add-architecture adds.
install_packages() {
	local missing fresh arch
	missing=$(sed -e 's/#.*//' "$1" | xargs -n1 | while read -r p; do
		is_installed "$p" || echo "$p"
	done)
	fresh=$(find /var/lib/apt/lists -maxdepth 1 -name '*_Packages*' -mtime -1 -print -quit)
	{
		for arch in $(sed -n 's/.*:\([a-z0-9]*\)$/\1/p' "$1" | sort -u); do
			dpkg --add-architecture "$arch"
		done
		[ -z "$missing" ] && [ -n "$fresh" ] ||
			apt-get -q -o DPkg::Lock::Timeout=600 update
		# shellcheck disable=SC2086 # names are words
		[ -z "$missing" ] || apt-get -q -y -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 \
			install --no-install-recommends $missing
	} >"$2" 2>&1 || {
		tail -20 "$2" >&2
		echo "packages could not be installed, see $2" >&2
		return 1
	}
}
