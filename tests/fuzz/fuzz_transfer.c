/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: what another host says.  The first byte picks who hears it: the
 * decoder of messages, or an endpoint that listened or connected, over a
 * made-up device.  For endpoints the input is a script of messages that are
 * right but for fields that it chooses, or of raw bytes.
 */
#include <sys/epoll.h>
#include <sys/socket.h>

#include "transfer/endpoint.h"
#include "unit/transfer_fake.h"

#define STEPS 64

static struct mrg_transfer *transfer;

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

/* ---- the decoder ---- */

/* Texts are cleaned and padding is not kept, so only lengths must agree. */
static void check_decoder(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size + 1);
	static uint8_t again[MESSAGE_HEAD + MESSAGE_BODY];
	struct transfer_message message, twice;
	ssize_t length;

	memcpy(exact, data, size);
	length = transfer_message_length(exact, size);
	must(length <= (ssize_t)(MESSAGE_HEAD + MESSAGE_BODY), "a message without bound");
	if (length > 0 && (size_t)length <= size &&
	    !transfer_message_decode(exact, (size_t)length, &message)) {
		if (message.type >= MESSAGE_OPTIONAL) {
			free(exact);
			return;
		}
		must(message.type && message.type < MESSAGE_TYPES, "an unknown type");
		must(message.type == MESSAGE_NOTE || length <= MESSAGE_SMALL, "no room for it");
		must(transfer_message_encode(&message, again) == (size_t)length, "another length");
		must(!transfer_message_decode(again, (size_t)length, &twice), "not read again");
	}
	free(exact);
}

/* ---- an endpoint ---- */

struct script {
	const uint8_t *data;
	size_t size;
};

static uint8_t next(struct script *script)
{
	if (!script->size)
		return 0;
	script->size--;
	return *script->data++;
}

static void over(struct script *script, void *bytes, size_t length)
{
	uint8_t *at = bytes;

	/* One byte in some: most of a message is to stay right. */
	for (uint8_t n = next(script) % 4; n; n--)
		at[next(script) % length] = next(script);
}

static void good_port(struct transfer_message_port *port)
{
	*port = (struct transfer_message_port){
		.ethernet = 1, .gid_type = IBV_GID_TYPE_ROCE_V2, .mtu = IBV_MTU_1024, .reads = 4
	};
	memcpy(port->gid, &net.nics[1].gids[0].gid, sizeof(port->gid));
}

static void good_hello(struct transfer_message_hello *hello)
{
	good_port(&hello->port);
	hello->gids = 1;
	hello->gid[0].type = IBV_GID_TYPE_ROCE_V2;
	memcpy(hello->gid[0].gid, &net.nics[1].gids[0].gid, 16);
	hello->lanes = 2;
	hello->lane[0].qpn = 1000;
	hello->lane[1].qpn = 1001;
}

static void good_offer(const struct mrg_ep *ep, struct transfer_message_offer *offer, uint8_t hint)
{
	good_port(&offer->port);
	offer->index = hint % 2;
	offer->epoch = ep->lanes[hint % 2].epoch + hint / 64;
	offer->lane.qpn = 1002;
}

/* One that may be skipped, and one that must be known. */
static const uint8_t parts[] = { 1, 0, 3, 0, 7, 7, 7, 2, 0x80, 2, 0, 7, 7 };

static void make(const struct mrg_ep *ep, struct script *script, struct transfer_message *message)
{
	memset(message, 0, sizeof(*message));
	message->type = 1 + next(script) % (MESSAGE_TYPES - 1);
	switch (message->type) {
	case MESSAGE_HELLO:
	case MESSAGE_WELCOME:
		good_hello(&message->hello);
		over(script, &message->hello, sizeof(message->hello));
		/* Its list must not be longer than it is. */
		message->hello.gids %= MESSAGE_GIDS + 1;
		message->hello.lanes %= MESSAGE_LANES + 1;
		message->hello.parts = (struct transfer_message_bytes){ parts, sizeof(parts) };
		message->hello.parts.length -= next(script) % 2 * 6;
		break;
	case MESSAGE_NOTE:
		message->note = (struct transfer_message_bytes){ (const uint8_t *)"note", 4 };
		break;
	case MESSAGE_REFUSED:
		message->refusal.code = -(int)next(script);
		break;
	case MESSAGE_REVOKE:
	case MESSAGE_REVOKED:
		message->generation = next(script);
		break;
	default:
		good_offer(ep, &message->offer, next(script));
		over(script, &message->offer, sizeof(message->offer));
	}
}

static void say(const struct mrg_ep *ep, int fd, struct script *script)
{
	uint8_t bytes[MESSAGE_SMALL];
	struct transfer_message message;
	size_t length;

	if (next(script) % 8) {
		make(ep, script, &message);
		length = transfer_message_encode(&message, bytes);
	} else {
		length = next(script) % 64;
		for (size_t i = 0; i < length; i++)
			bytes[i] = next(script);
	}
	if (send(fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
}

static void check_ep(struct script *script, bool dialed)
{
	struct mrg_ep *ep;
	int fds[2];

	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), "no sockets");
	ep = transfer_ep_new(transfer, fds[0], "fuzz");
	must(ep != NULL, "no endpoint");
	pthread_mutex_lock(&ep->lock);
	ep->dialed = dialed;
	ep->state = EP_GREETING;
	if (dialed)
		must(!transfer_handshake_begin(ep), "no queue pairs");
	for (int i = 0; i < STEPS && script->size && ep->state != EP_FAILED; i++) {
		if (next(script) % 8)
			say(ep, fds[1], script);
		else
			transfer_dispatch_tick(ep, transfer_now());
		transfer_dispatch_ready(ep, EPOLLIN);
		transfer_ep_progress(ep);
	}
	transfer_ep_fail(ep, -ECANCELED, "fuzz", "", "The test ends.");
	for (int i = 0; i < 10 && !transfer_lanes_quiet(ep); i++)
		transfer_dispatch_tick(ep, transfer_now() + (uint64_t)i * 1000 * MS);
	must(transfer_lanes_quiet(ep), "a lane is left");
	pthread_mutex_unlock(&ep->lock);
	transfer_ep_free(ep);
	close(fds[1]);
	must(!net.live_qps && !net.live_cqs && !net.overruns && !net.stray, "something is left");
	/* Numbers of queue pairs are used once in a world. */
	net.qp_count = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct mrg_transfer_opts opts = { .size = sizeof(opts), .lanes = 2, .depth = 4 };
	struct script script = { data + 1, size - 1 };

	if (!transfer) {
		fake_setup(NULL);
		must(!transfer_open(&transfer, &net.nics[0].pd, &opts, &fake_ops), "no handle");
	}
	if (!size)
		return 0;
	if (data[0] % 3 == 0)
		check_decoder(script.data, script.size);
	else
		check_ep(&script, data[0] % 3 == 1);
	return 0;
}
