# SPDX-License-Identifier: MIT
# The command says what can follow; where it says nothing, bash offers files.
_mrguard() {
	mapfile -t COMPREPLY < <(mrguard complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1)
}
complete -o default -F _mrguard mrguard
