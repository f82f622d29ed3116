/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/opts.h"

int base_opts_copy(void *mine, size_t my_size, const void *theirs)
{
	const unsigned char *bytes = theirs;
	size_t size;

	memset(mine, 0, my_size);
	if (!theirs)
		return 0;
	memcpy(&size, theirs, sizeof(size));
	if (size < sizeof(size) || size > BASE_OPTS_MAX)
		return -EINVAL;
	for (size_t i = my_size; i < size; i++)
		if (bytes[i])
			return -EINVAL;
	memcpy(mine, theirs, size < my_size ? size : my_size);
	return 0;
}
