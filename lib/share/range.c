/* SPDX-License-Identifier: MIT */
/* A handle's published ranges, and their chunks as file descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "share/handle.h"

void share_range_free(struct mrg_range *range)
{
	for (size_t i = 0; i < range->count; i++)
		if (range->pieces[i].fd >= 0)
			close(range->pieces[i].fd);
	pthread_mutex_destroy(&range->lock);
	free(range->pieces);
	free(range->token);
	free(range);
}

struct mrg_range *share_range_new(struct mrg_share *share, size_t count)
{
	struct mrg_range *range = calloc(1, sizeof(*range));

	if (!range)
		return NULL;
	range->pieces = calloc(count, sizeof(*range->pieces));
	if (!range->pieces) {
		free(range);
		return NULL;
	}
	for (size_t i = 0; i < count; i++)
		range->pieces[i].fd = -1;
	range->count = count;
	range->share = share;
	range->published = 1;
	pthread_mutex_init(&range->lock, NULL);
	return range;
}

void share_range_drop_all(struct mrg_share *share)
{
	struct mrg_range *range;

	while ((range = SLIST_FIRST(&share->ranges))) {
		SLIST_REMOVE_HEAD(&share->ranges, next);
		share_range_free(range);
	}
}

/* The time that it takes tells nothing of the token. */
static bool same_secret(const uint8_t *a, const uint8_t *b)
{
	uint8_t differ = 0;

	for (int i = 0; i < SHARE_SECRET; i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

struct mrg_range *share_range_find(struct mrg_share *share, uint64_t generation,
				   const uint8_t secret[SHARE_SECRET])
{
	struct mrg_range *range;

	pthread_mutex_lock(&share->lock);
	SLIST_FOREACH(range, &share->ranges, next)
		if (range->generation == generation && same_secret(range->secret, secret))
			break;
	if (range)
		range->clients++;
	pthread_mutex_unlock(&share->lock);
	return range;
}

static int export_memfd(const struct mrg_range *range, size_t index)
{
	const struct share_piece *piece = &range->pieces[index];
	int fd;

	while (piece->fd < 0)
		piece--;
	fd = fcntl(piece->fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? -errno : fd;
}

/*
 * Some ROCm releases give the second export of an allocation the number of the
 * first descriptor, which is closed by then: there the first is kept, and
 * copies go out.
 */
static int export_kept(struct mrg_range *range, struct share_piece *piece)
{
	int fd, ret;

	if (piece->fd < 0) {
		ret = gpu_export_chunk(range->share->gpu, GPU_HIP, piece->addr, piece->id, &fd);
		if (ret)
			return ret;
		piece->fd = fd;
	}
	fd = fcntl(piece->fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? -errno : fd;
}

static int export_one(struct mrg_range *range, size_t index)
{
	struct share_piece *piece = &range->pieces[index];
	int fd = -1, ret;

	if (range->kind == SHARE_HOST)
		return export_memfd(range, index);
	if (range->kind == SHARE_HIP_VMM)
		return export_kept(range, piece);
	ret = gpu_export_chunk(range->share->gpu, GPU_CUDA, piece->addr, piece->id, &fd);
	return ret ? ret : fd;
}

int share_range_export(struct mrg_range *range, uint32_t first, uint32_t count, int *fds)
{
	uint32_t done = 0;
	int ret = 0;

	pthread_mutex_lock(&range->lock);
	if (range->withdrawn)
		ret = -ESTALE;
	while (!ret && done < count) {
		ret = export_one(range, first + done);
		if (ret >= 0) {
			fds[done++] = ret;
			ret = 0;
		} else if (range->share->gpu) {
			mrg_private_error_move(range->share->gpu->error_owner,
					       range->share->error_owner);
		}
	}
	pthread_mutex_unlock(&range->lock);
	if (!ret || (ret == -EMFILE && done))
		return (int)done;
	share_close_fds(fds, done);
	return ret;
}

int share_range_handle(struct mrg_range *range, struct gpu_ipc_handle *handle)
{
	const struct share_piece *piece = &range->pieces[0];
	int ret = -ESTALE;

	pthread_mutex_lock(&range->lock);
	if (!range->withdrawn) {
		ret = gpu_ipc_export(range->share->gpu, share_vendor(range->kind), range->device,
				     piece->addr, piece->id, handle);
		mrg_private_error_move(range->share->gpu->error_owner, range->share->error_owner);
	}
	pthread_mutex_unlock(&range->lock);
	return ret;
}

void share_range_put(struct mrg_share *share, struct mrg_range *range)
{
	bool gone;

	pthread_mutex_lock(&share->lock);
	range->clients--;
	gone = !range->clients && !range->published && !range->share;
	pthread_mutex_unlock(&share->lock);
	if (gone)
		share_range_free(range);
}
