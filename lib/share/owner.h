/* SPDX-License-Identifier: MIT */
/* The process that made a token, and whether the process that answers is it. */
#ifndef SHARE_OWNER_H
#define SHARE_OWNER_H

#include <stdint.h>
#include <sys/types.h>

#include <mrguard/common.h>

/* A part of the token, as it is; 0 = not known, in all but @uid. */
struct share_owner {
	uint32_t uid; /* effective, as the user namespace @userns numbers it */
	uint32_t reserved; /* 0 */
	uint64_t userns; /* inode numbers */
	uint64_t timens;
	uint64_t start; /* of the process, in clock ticks, as @timens counts */
};

/** share_owner_self() - the calling process */
struct share_owner share_owner_self(void);

/**
 * share_owner_check_user() - whether a server of @uid may be the owner
 * @uid:	of the process that listens, as this user namespace numbers it
 * @expected:	the uid that the caller named; NULL: none
 * @error:	OUT cause and remedy, when it fails
 *
 * Return: 0; -EACCES; -EMFILE, without @error: nothing is known.
 */
int share_owner_check_user(const struct share_owner *owner, uid_t uid, const uid_t *expected,
			   struct mrg_error *error);

/** share_owner_is() - whether process @pid may be the owner: so it is too where
 *  its start is not known, or is counted in another time namespace.
 *  Return: 1; 0; -EMFILE. */
int share_owner_is(const struct share_owner *owner, pid_t pid);

#endif
