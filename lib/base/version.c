/* SPDX-License-Identifier: MIT */
#include <mrguard/common.h>

const char *mrg_version(void)
{
	return MRG_VERSION_STRING;
}
