# SPDX-License-Identifier: MIT
# The command says what can follow; where it says nothing, fish offers files.
complete -c mrguard -a '(mrguard complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
