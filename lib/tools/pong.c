/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "tools/fabric.h"
#include "tools/fail.h"
#include "tools/pong.h"

#define PATIENCE_US 10000000.0
#define SPINS 4096 /* between looks at the clock */
#define ANSWER_MS 30000

/* One side: the first @size bytes are the peer's to write, the next are sent. */
struct player {
	struct fabric *fabric;
	struct mrg_ep *ep;
	const struct fabric_buffer *buffer;
	const struct mrg_remote *remote;
	uint64_t size;
	int waiting; /* requests that were not collected */
};

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static unsigned char ball(uint64_t round)
{
	return (unsigned char)(1 + round % 255);
}

static int collect(struct player *p)
{
	struct mrg_done done[8];
	int n = mrg_poll(p->ep, done, 8), ret = 0;

	for (int i = 0; i < n; i++) {
		if (done[i].status) {
			mrg_request_error(p->ep, done[i].request, &p->fabric->error);
			ret = done[i].status;
		}
		mrg_request_free(p->ep, done[i].request);
	}
	p->waiting -= n;
	return ret;
}

static int hit(struct player *p, uint64_t round)
{
	unsigned char *from = p->buffer->bytes + p->size;
	struct mrg_local part = { .mr = p->buffer->mr, .addr = (uintptr_t)from, .length = p->size };
	struct mrg_op op = { .code = MRG_OP_WRITE,
			     .local_count = 1,
			     .local = &part,
			     .remote = p->remote,
			     .remote_addr = mrg_remote_addr(p->remote) };
	int ret;

	from[p->size - 1] = ball(round);
	ret = mrg_submit(p->ep, &op, 1, NULL, NULL);
	if (ret)
		mrg_transfer_last_error(p->fabric->transfer, &p->fabric->error);
	p->waiting += !ret;
	return ret;
}

static int miss(struct player *p)
{
	return base_error_set(&p->fabric->error, -ETIMEDOUT, "play", "Look at the peer.",
			      "The peer did not answer for 10 seconds.");
}

/* The last byte comes last: devices write a message in order. */
static int await(struct player *p, uint64_t round)
{
	const volatile unsigned char *last = p->buffer->bytes + p->size - 1;
	double until = 0;
	int ret;

	for (uint64_t spins = 0; *last != ball(round); spins++) {
		if (spins % SPINS != SPINS - 1)
			continue;
		ret = collect(p);
		if (ret)
			return ret;
		if (!until)
			until = now_us() + PATIENCE_US;
		if (now_us() > until)
			return miss(p);
	}
	return 0;
}

static int drain(struct player *p, int ret)
{
	while (!ret && p->waiting)
		ret = collect(p);
	return ret;
}

int pong_serve(struct fabric *fabric, struct mrg_ep *ep, const struct fabric_buffer *buffer,
	       json_t *order, json_t **reply)
{
	struct player p = { .fabric = fabric, .ep = ep, .buffer = buffer };
	struct fabric_offer offer = { .remote = NULL };
	json_int_t size = 0, count = 0;
	int ret = fabric_take_offer(fabric, ep, &offer);

	json_unpack(order, "{s:I, s:I}", "size", &size, "count", &count);
	*reply = json_pack("{s:s}", "error", "no room for a game of that size");
	if (!ret && size > 0 && (uint64_t)size <= buffer->length / 2 &&
	    (uint64_t)size <= offer.length) {
		p.size = (uint64_t)size;
		p.remote = offer.remote;
		buffer->bytes[p.size - 1] = 0;
		ret = fabric_send(fabric, ep, json_pack("{s:b}", "ready", 1));
		for (json_int_t i = 0; i < count && !ret; i++) {
			ret = await(&p, (uint64_t)i);
			if (!ret)
				ret = hit(&p, (uint64_t)i);
			if (!ret)
				ret = collect(&p);
		}
		ret = drain(&p, ret);
		json_decref(*reply);
		*reply = json_pack("{s:b}", "played", 1);
	}
	mrg_remote_free(offer.remote);
	return ret;
}

static int expect(struct fabric *fabric, struct mrg_ep *ep, const char *word)
{
	json_t *reply = fabric_receive(fabric, ep, ANSWER_MS);
	bool good = json_object_get(reply, word);
	const char *error = json_string_value(json_object_get(reply, "error"));
	int ret = 0;

	if (!reply)
		return fabric->error.code;
	if (!good)
		ret = base_error_set(&fabric->error, -EREMOTEIO, "play",
				     "Serve more memory, or measure smaller sizes.",
				     "The server refuses the measurement: %s.",
				     error ? error : "nothing");
	json_decref(reply);
	return ret;
}

static int play(struct player *p, uint64_t count, double *us)
{
	double before;
	int ret = 0;

	for (uint64_t i = 0; i < count && !ret; i++) {
		before = now_us();
		ret = hit(p, i);
		if (!ret)
			ret = await(p, i);
		us[i] = (now_us() - before) / 2;
		if (!ret)
			ret = collect(p);
	}
	return drain(p, ret);
}

int pong_measure(struct fabric *fabric, struct mrg_ep *ep, const struct fabric_offer *offer,
		 const struct fabric_buffer *buffer, uint64_t size, uint64_t count, double *us)
{
	struct player p = {
		.fabric = fabric, .ep = ep, .buffer = buffer, .remote = offer->remote, .size = size
	};
	int ret;

	if (size > buffer->length / 2)
		return base_error_set(&fabric->error, -ERANGE, "play",
				      "Serve more memory, or measure smaller sizes.",
				      "There is no room for two messages of %llu bytes.",
				      (unsigned long long)size);
	buffer->bytes[size - 1] = 0;
	ret = fabric_send(fabric, ep,
			  json_pack("{s:s, s:I, s:I}", "do", "pong", "size", (json_int_t)size,
				    "count", (json_int_t)count));
	if (!ret)
		ret = fabric_offer(fabric, ep, buffer, "client", true);
	if (!ret)
		ret = expect(fabric, ep, "ready");
	if (!ret)
		ret = play(&p, count, us);
	return ret ? ret : expect(fabric, ep, "played");
}
