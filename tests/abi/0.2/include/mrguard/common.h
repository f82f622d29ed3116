/* SPDX-License-Identifier: MIT */
/* What every mrguard header needs: visibility, and how failures are reported. */
#ifndef MRGUARD_COMMON_H
#define MRGUARD_COMMON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MRG_API __attribute__((visibility("default")))

/*
 * Options structures begin with "size_t size", the size that the caller was
 * built with: later releases add fields at the end.  What a shorter one lacks
 * is taken for zero.  -EINVAL: a size that does not cover itself, one above
 * 4096 bytes (it was never set; the kernel draws the same line for structures
 * of its callers, in copy_struct_from_user()), or a field that this release
 * does not know and that is not zero.  So zero all of it, then set the size.
 *
 * Other structures have reserved words.  The library writes them as zero, and
 * refuses with -EINVAL those of its callers that are not zero.  Structures that
 * say "frozen" will never grow.
 */

/**
 * struct mrg_error - why a call failed
 * @code:	the -errno that the call returned
 * @stage:	which step failed, a short fixed word or two ("check fd",
 *		"register piece")
 * @piece:	index of the MR piece concerned, or -1
 * @cause:	one sentence: what was wrong, with value and limit
 * @remedy:	one sentence: what to do; "" where nothing can be done
 * @reserved:	0
 */
struct mrg_error {
	int code;
	int piece;
	char stage[32];
	char cause[256];
	char remedy[256];
	uint64_t reserved[2]; /* 0 */
};

/**
 * mrg_version() - the library's version, such as "0.2.0"
 *
 * Return: a string that lives as long as the process.  Any thread.
 */
MRG_API const char *mrg_version(void);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_COMMON_H */
