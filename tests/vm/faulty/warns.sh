#!/bin/sh
# SPDX-License-Identifier: MIT
# Has the kernel warn, which ends the machine before there is a verdict.
echo "1..1"
modprobe warn_control
echo "ok 1 - first"
