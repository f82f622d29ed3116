#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints no TAP.
