/* SPDX-License-Identifier: MIT */
/* The one writer of struct mrg_error, and each thread's last failure. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>
#include <stdint.h>

#include <mrguard/common.h>

#define BASE_PRINTF(at, first) __attribute__((format(printf, at, first)))

/*
 * The form of every failure: @cause and @remedy are full sentences, which begin
 * with a capital and end with a full stop; @remedy is "" where nothing helps.
 * Builds with BASE_CHECK_SENTENCES abort where one is not.
 *
 * "set" fills in a structure of the caller's, and nothing else; "fail" keeps the
 * failure as the calling thread's last one, which mrg_last_error() and its like
 * read.  A function that tells of its failure in a structure sets; one at which
 * a public call ends fails.
 */

/**
 * base_error_set() - fill in @error
 * @error: OUT; NULL is allowed.  Arguments may lie in what it held
 * @code: a -errno
 *
 * Return: @code.  Any thread.
 */
int base_error_set(struct mrg_error *error, int code, const char *stage, const char *remedy,
		   const char *cause, ...) BASE_PRINTF(5, 6);
/** base_error_set_piece() - the same, about MR piece or chunk @piece; -1: none */
int base_error_set_piece(struct mrg_error *error, int code, int piece, const char *stage,
			 const char *remedy, const char *cause, ...) BASE_PRINTF(6, 7);
int base_error_vset(struct mrg_error *error, int code, int piece, const char *stage,
		    const char *remedy, const char *cause, va_list args);

/**
 * base_fail() - keep why a call fails, for the calling thread
 * @owner: the handle's own number, of mrg_private_error_owner(); 0 while there
 *	is no handle yet
 *
 * Return: @code; errno is kept.  Any thread.
 */
int base_fail(uint64_t owner, int code, const char *stage, const char *remedy, const char *cause,
	      ...) BASE_PRINTF(5, 6);
/** base_fail_piece() - the same, about MR piece or chunk @piece */
int base_fail_piece(uint64_t owner, int code, int piece, const char *stage, const char *remedy,
		    const char *cause, ...) BASE_PRINTF(6, 7);

/*
 * The store: one failure a thread, in libmrguard alone, so that both libraries
 * read and write the same.
 */

/** mrg_private_error_owner() - a number for a new handle, which no other has had */
MRG_API uint64_t mrg_private_error_owner(void);
/** mrg_private_error_keep() - the calling thread's last failure is @error.  Return: its code. */
MRG_API int mrg_private_error_keep(uint64_t owner, const struct mrg_error *error);
/** mrg_private_error_move() - a failure of @from, if that is the last one, is @owner's */
MRG_API void mrg_private_error_move(uint64_t from, uint64_t owner);
/** mrg_private_error_read() - 0; -ENODATA: @owner has none in this thread */
MRG_API int mrg_private_error_read(uint64_t owner, struct mrg_error *error);

#endif
