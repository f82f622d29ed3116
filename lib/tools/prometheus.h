/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_PROMETHEUS_H
#define TOOLS_PROMETHEUS_H

#include <stdio.h>

/** prometheus_label() - name="value", as Prometheus' text format escapes it */
void prometheus_label(FILE *out, const char *name, const char *value);

#endif
