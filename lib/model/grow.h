/* SPDX-License-Identifier: MIT */
/* Arrays that grow by doubling. */
#ifndef MODEL_GROW_H
#define MODEL_GROW_H

#include <errno.h>
#include <stdlib.h>

/* Makes room in *@array for one more element; *@room is what it holds. */
static inline int mrg_grow(void *array, size_t *room, size_t count, size_t size)
{
	size_t more = *room ? 2 * *room : 16;
	void **at = array, *larger;

	if (count < *room)
		return 0;
	larger = realloc(*at, more * size);
	if (!larger)
		return -ENOMEM;
	*at = larger;
	*room = more;
	return 0;
}

#endif /* MODEL_GROW_H */
