/* SPDX-License-Identifier: MIT */
/* Requests: collected, waited for, cancelled, read, freed. */
#include <errno.h>
#include <string.h>

#include "transfer/endpoint.h"
#include "transfer/request.h"

static int stale(const struct mrg_ep *ep, uint64_t request)
{
	return transfer_fail(ep->transfer, -ESTALE, "find request",
			     "Use a request of this endpoint until it is freed, once.",
			     "Request 0x%llx was freed, or is not one of the endpoint.",
			     (unsigned long long)request);
}

int mrg_poll(struct mrg_ep *ep, struct mrg_done *done, int cap)
{
	struct transfer_request *request;
	int n = 0;

	pthread_mutex_lock(&ep->lock);
	transfer_ep_progress(ep);
	while (n < cap && (request = TAILQ_FIRST(&ep->done))) {
		TAILQ_REMOVE(&ep->done, request, link);
		request->waited = true;
		done[n++] = (struct mrg_done){ .request = request->handle,
					       .user = request->user,
					       .status = request->result.status };
	}
	pthread_mutex_unlock(&ep->lock);
	return n;
}

/* On success alone, ep->lock is held. */
static inline int lock_done(struct mrg_ep *ep, uint64_t handle, struct transfer_request **request)
{
	pthread_mutex_lock(&ep->lock);
	*request = transfer_request_find(&ep->requests, handle);
	if (*request && (*request)->done)
		return 0;
	pthread_mutex_unlock(&ep->lock);
	if (!*request)
		return stale(ep, handle);
	return transfer_fail(ep->transfer, -EAGAIN, "read request", "Wait, or poll.",
			     "Request 0x%llx is not done.", (unsigned long long)handle);
}

static bool is_done(struct mrg_ep *ep, void *arg)
{
	const struct transfer_request *request =
		transfer_request_find(&ep->requests, *(uint64_t *)arg);

	return !request || request->done;
}

int mrg_wait(struct mrg_ep *ep, uint64_t handle, int timeout_ms)
{
	struct transfer_request *request;
	int ret = -ESTALE;

	pthread_mutex_lock(&ep->lock);
	request = transfer_request_find(&ep->requests, handle);
	if (request) {
		if (request->done && !request->waited)
			TAILQ_REMOVE(&ep->done, request, link);
		request->waited = true;
		ret = transfer_ep_await(ep, is_done, &handle, timeout_ms);
		/* Another thread may have freed it meanwhile. */
		request = transfer_request_find(&ep->requests, handle);
		if (request)
			request->waited = !ret;
	}
	pthread_mutex_unlock(&ep->lock);
	return request ? ret : stale(ep, handle);
}

int mrg_cancel(struct mrg_ep *ep, uint64_t handle)
{
	const struct mrg_result cancelled = { .status = -ECANCELED };
	struct transfer_request *request;

	pthread_mutex_lock(&ep->lock);
	request = transfer_request_find(&ep->requests, handle);
	if (request)
		transfer_request_fail(request, &cancelled);
	pthread_mutex_unlock(&ep->lock);
	return request ? 0 : stale(ep, handle);
}

int mrg_request_free(struct mrg_ep *ep, uint64_t handle)
{
	struct transfer_request *request;
	int ret = lock_done(ep, handle, &request);

	if (ret)
		return ret;
	if (!request->waited)
		TAILQ_REMOVE(&ep->done, request, link);
	transfer_request_free(request);
	pthread_mutex_unlock(&ep->lock);
	return 0;
}

int mrg_request_result(struct mrg_ep *ep, uint64_t handle, struct mrg_result *result)
{
	struct transfer_request *request;
	int ret = lock_done(ep, handle, &request);

	if (ret)
		return ret;
	*result = request->result;
	pthread_mutex_unlock(&ep->lock);
	return 0;
}

int mrg_request_error(struct mrg_ep *ep, uint64_t handle, struct mrg_error *error)
{
	struct transfer_request *request;
	int ret = lock_done(ep, handle, &request);

	if (ret)
		return ret;
	memset(error, 0, sizeof(*error));
	error->piece = -1;
	if (request->result.status && !request->result.wc_status &&
	    request->result.status == ep->error.code)
		*error = ep->error;
	else if (request->result.status)
		transfer_cause_words(request, error);
	pthread_mutex_unlock(&ep->lock);
	return 0;
}
