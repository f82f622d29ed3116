# SPDX-License-Identifier: MIT
# tests/vm/kernels as the table of README.md.
BEGIN {
	print "| kernel | page | from | block walk |"
	print "|---|---|---|---|"
}
{ sub(/#.*/, "") }
NF {
	from = $3 == "source" ? "built of Debian's linux-source " $2 : "Debian " $2
	walk = $4 == "truncating" ? "**truncating** (affected)" : $4
	printf "| %s | %s KiB | %s | %s |\n", $1, $5, from, walk
}
