# SPDX-License-Identifier: MIT
# tests/vm/kernels as the table of README.md.
BEGIN {
	print "| kernel | from | block walk |"
	print "|---|---|---|"
}
{ sub(/#.*/, "") }
$1 ~ /-amd64$/ { printf "| %s | Debian %s | %s |\n", $1, $2, $4 == "truncating" ? "**truncating** (affected)" : $4 }
