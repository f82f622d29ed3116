/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "share/parts.h"

#define SAME_RELEASE "Run the same release of libmrguard in both processes."

int share_part_next(struct share_parts *parts, struct share_part *part, const char **value)
{
	if (!parts->left)
		return 0;
	if (parts->left < sizeof(*part))
		return -EBADMSG;
	memcpy(part, parts->at, sizeof(*part));
	if (part->bytes > parts->left || share_part_bytes(part->bytes) > parts->left)
		return -EBADMSG;
	*value = parts->at + sizeof(*part);
	parts->at += share_part_bytes(part->bytes);
	parts->left -= share_part_bytes(part->bytes);
	return 1;
}

int share_part_unknown(const struct share_part *part, const char *stage, const char *what,
		       struct mrg_error *error)
{
	if (!(part->type & SHARE_PART_MUST))
		return 0;
	return base_error_set(error, -EPROTONOSUPPORT, stage, SAME_RELEASE,
			      "The %s has a part of type %u, which must be understood, and this "
			      "release does not know it.",
			      what, part->type & ~SHARE_PART_MUST);
}

int share_bad_version(unsigned int version, const char *stage, const char *what,
		      struct mrg_error *error)
{
	return base_error_set(error, -EPROTONOSUPPORT, stage, SAME_RELEASE,
			      "The %s has version %u, and this release knows version %u.", what,
			      version, SHARE_VERSION);
}
