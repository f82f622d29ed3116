/* SPDX-License-Identifier: MIT */
/* Arrays that grow by doubling. */
#ifndef BASE_GROW_H
#define BASE_GROW_H

#include <errno.h>
#include <stdlib.h>

/*
 * Makes room in @array for one more element; @room is how many it holds.
 * Returns the array, which may have moved, or NULL: it is then as before.
 */
static inline void *base_grow(void *array, size_t *room, size_t count, size_t size)
{
	size_t more = *room ? 2 * *room : 16;

	if (count < *room)
		return array;
	array = realloc(array, more * size);
	if (array)
		*room = more;
	return array;
}

#endif
