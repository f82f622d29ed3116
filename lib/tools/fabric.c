/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mrguard/descriptor.h>

#include "base/error.h"
#include "tools/fabric.h"
#include "tools/fail.h"
#include "tools/rc_loop.h"

#define ANSWER_MS 30000
#define OFFER_FORMAT "mrguard.serve/1"

/* ---- options ---- */

static void parse_gid_index(const struct argp_state *state, const char *option, char *arg,
			    void *args)
{
	struct mrg_transfer_opts *opts = &((struct fabric_args *)args)->opts;

	opts->flags |= MRG_TRANSFER_GID_INDEX;
	opts->gid_index = (uint32_t)args_between(state, option, arg, 0, 255);
}

#define AT(field) ARGS_AT(struct fabric_args, field)
const struct args_option fabric_options[] = {
	{ .help = "The device:" },
	{ "device", "DEVICE", "RDMA device, such as mlx5_0 (the first with an active port)",
	  ARGS_TEXT, AT(device) },
	{ "device-port", "N", "Its port (1)", ARGS_NUMBER, AT(opts.port), .max = 255 },
	{ "gid-index", "N", "Entry of its GID table (by the peer's address)", ARGS_OTHER,
	  .parse = parse_gid_index },
	{ "lanes", "N", "Queue pairs, at most 16 (1)", ARGS_NUMBER, AT(opts.lanes), .max = 16 },
	{ "depth", "N", "Work requests in flight on a queue pair (128)", ARGS_NUMBER,
	  AT(opts.depth), .max = 32768 },
	{ "slice", "SIZE", "Largest work request (1M)", ARGS_NUMBER, AT(opts.slice),
	  .max = 1u << 30 },
	{ 0 },
};

/* ---- the device ---- */

static bool has_active_port(struct ibv_context *verbs, uint8_t port)
{
	struct ibv_port_attr attr;

	return !ibv_query_port(verbs, port, &attr) && attr.state == IBV_PORT_ACTIVE;
}

static struct ibv_context *first_active(uint8_t port)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *verbs = NULL;

	for (int i = 0; list && list[i] && !verbs; i++) {
		verbs = ibv_open_device(list[i]);
		if (!verbs || has_active_port(verbs, port))
			continue;
		ibv_close_device(verbs);
		verbs = NULL;
	}
	if (list)
		ibv_free_device_list(list);
	return verbs;
}

static int open_device(struct fabric *fabric, const struct fabric_args *args)
{
	uint8_t port = args->opts.port ? (uint8_t)args->opts.port : 1;

	fabric->verbs = args->device ? rc_device_open(args->device) : first_active(port);
	if (fabric->verbs)
		return 0;
	if (!args->device)
		return base_error_set(&fabric->error, -ENODEV, "open device",
				      "`mrguard info' lists the RDMA devices.",
				      "No RDMA device has an active port %u.", port);
	return base_error_set(&fabric->error, -errno, "open device",
			      "`mrguard info' lists the RDMA devices.",
			      "The RDMA device %s cannot be opened: %s.", args->device,
			      strerror(errno));
}

/* The library's own words, where it has some. */
static int failed(struct fabric *fabric, int ret, const char *what)
{
	struct mrg_error error;

	if (!mrg_transfer_last_error(fabric->transfer, &error) && error.code == ret)
		fabric->error = error;
	else
		base_error_set(&fabric->error, ret, what, "", "The command cannot %s: %s.", what,
			       strerror(-ret));
	return ret;
}

int fabric_open(struct fabric *fabric, const struct fabric_args *args)
{
	struct mrg_transfer_opts opts = args->opts;
	int ret;

	memset(fabric, 0, sizeof(*fabric));
	opts.size = sizeof(opts);
	ret = open_device(fabric, args);
	if (ret)
		return ret;
	fabric->pd = ibv_alloc_pd(fabric->verbs);
	ret = fabric->pd ? mrg_open(&fabric->ctx, fabric->verbs, NULL) : -errno;
	if (!ret)
		ret = mrg_transfer_open(&fabric->transfer, fabric->pd, &opts);
	if (!ret)
		return 0;
	failed(fabric, ret, "open device");
	fabric_close(fabric);
	return ret;
}

void fabric_close(struct fabric *fabric)
{
	mrg_transfer_close(fabric->transfer);
	mrg_close(fabric->ctx);
	if (fabric->pd)
		ibv_dealloc_pd(fabric->pd);
	if (fabric->verbs)
		ibv_close_device(fabric->verbs);
	fabric->transfer = NULL;
	fabric->ctx = NULL;
	fabric->pd = NULL;
	fabric->verbs = NULL;
}

int fabric_connect(struct fabric *fabric, const char *peer, struct mrg_ep **ep)
{
	char host[256];
	const char *port = strrchr(peer, ':'), *name = host;
	int ret;

	/* Colons without brackets are those of an IPv6 address. */
	if (port && strchr(peer, ':') != port && port[-1] != ']')
		port = NULL;
	snprintf(host, sizeof(host), "%.*s", (int)(port ? port - peer : (long)strlen(peer)), peer);
	if (host[0] == '[' && host[strlen(host) - 1] == ']') {
		host[strlen(host) - 1] = '\0';
		name++;
	}
	ret = mrg_ep_connect(fabric->transfer, name, port ? port + 1 : FABRIC_PORT, ep);
	return ret ? failed(fabric, ret, "connect") : 0;
}

/* ---- memory ---- */

int fabric_alloc(struct fabric *fabric, uint64_t length, int access, struct fabric_buffer *buffer)
{
	struct mrg_error error;
	int ret;

	buffer->length = length;
	buffer->mr = NULL;
	buffer->bytes =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer->bytes == MAP_FAILED) {
		buffer->bytes = NULL;
		return base_error_set(&fabric->error, -ENOMEM, "allocate", "Use less memory.",
				      "There is no memory for %" PRIu64 " bytes.", length);
	}
	ret = mrg_reg(fabric->ctx, fabric->pd, buffer->bytes, length, access, NULL, &buffer->mr);
	if (!ret)
		return 0;
	if (!mrg_last_error(fabric->ctx, &error))
		fabric->error = error;
	fabric_free(buffer);
	return ret;
}

void fabric_free(struct fabric_buffer *buffer)
{
	mrg_dereg(buffer->mr);
	if (buffer->bytes)
		munmap(buffer->bytes, buffer->length);
	buffer->bytes = NULL;
	buffer->mr = NULL;
}

int fabric_finish(struct fabric *fabric, struct mrg_ep *ep, uint64_t request)
{
	int ret;

	mrg_wait(ep, request, -1);
	mrg_request_error(ep, request, &fabric->error);
	ret = fabric->error.code;
	mrg_request_free(ep, request);
	return ret;
}

/* ---- notes ---- */

int fabric_send(struct fabric *fabric, struct mrg_ep *ep, json_t *object)
{
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	int ret = text ? mrg_ep_send(ep, text, strlen(text)) : -ENOMEM;

	free(text);
	json_decref(object);
	return ret ? failed(fabric, ret, "tell the peer") : 0;
}

static int odd_peer(struct fabric *fabric, const char *what)
{
	return base_error_set(&fabric->error, -EPROTO, "hear the peer",
			      "Run the same version of mrguard on both sides.",
			      "The peer sends something else than expected: %s.", what);
}

json_t *fabric_receive(struct fabric *fabric, struct mrg_ep *ep, int timeout_ms)
{
	static __thread char text[MRG_NOTE_MAX];
	ssize_t length = mrg_ep_receive(ep, text, sizeof(text), timeout_ms);
	json_t *object;

	if (length < 0) {
		failed(fabric, (int)length, "hear the peer");
		return NULL;
	}
	object = json_loadb(text, (size_t)length, 0, NULL);
	if (!json_is_object(object)) {
		json_decref(object);
		odd_peer(fabric, "no JSON object");
		return NULL;
	}
	return object;
}

/* ---- offers ---- */

static ssize_t describe(const struct fabric_buffer *buffer, void **bytes)
{
	struct mrg_desc_device device = { .port = 1, .access = IBV_ACCESS_REMOTE_READ };
	struct mrg_descriptor desc = {
		.addr = (uintptr_t)buffer->bytes,
		.length = buffer->length,
		.devices = &device,
		.device_count = 1,
		.generation = 1,
	};
	ssize_t ret = -ENOMEM;

	device.link_layer = IBV_LINK_LAYER_ETHERNET;
	device.count = mrg_mr_count(buffer->mr);
	device.pieces = calloc(device.count, sizeof(*device.pieces));
	mrg_boot_id(desc.boot);
	gethostname(desc.host, sizeof(desc.host) - 1);
	if (device.pieces &&
	    mrg_remote_pieces(buffer->mr, device.pieces, device.count) == device.count)
		ret = mrg_descriptor_encode(&desc, bytes);
	free(device.pieces);
	return ret;
}

static int send_bytes(struct fabric *fabric, struct mrg_ep *ep, const char *bytes, size_t length)
{
	size_t part;
	int ret = 0;

	for (size_t at = 0; at < length && !ret; at += part) {
		part = length - at < MRG_NOTE_MAX ? length - at : MRG_NOTE_MAX;
		ret = mrg_ep_send(ep, bytes + at, part);
	}
	return ret ? failed(fabric, ret, "tell the peer") : 0;
}

int fabric_offer(struct fabric *fabric, struct mrg_ep *ep, const struct fabric_buffer *buffer,
		 const char *name, bool writable)
{
	void *bytes;
	ssize_t length = describe(buffer, &bytes);
	int ret;

	if (length < 0)
		return failed(fabric, (int)length, "describe the buffer");
	ret = fabric_send(fabric, ep,
			  json_pack("{s:s, s:s, s:b, s:I}", "format", OFFER_FORMAT, "name", name,
				    "writable", writable, "descriptor", (json_int_t)length));
	if (!ret)
		ret = send_bytes(fabric, ep, bytes, (size_t)length);
	free(bytes);
	return ret;
}

static int receive_bytes(struct fabric *fabric, struct mrg_ep *ep, char *bytes, size_t length)
{
	ssize_t n;

	for (size_t at = 0; at < length; at += (size_t)n) {
		n = mrg_ep_receive(ep, bytes + at, length - at, ANSWER_MS);
		if (n < 0)
			return failed(fabric, (int)n, "hear the peer");
	}
	return 0;
}

static int decode(struct fabric *fabric, const char *bytes, size_t length,
		  struct fabric_offer *offer)
{
	struct mrg_descriptor desc;
	int ret = mrg_descriptor_decode(bytes, length, &desc, &fabric->error);

	if (ret)
		return ret;
	if (desc.device_count == 1)
		ret = mrg_remote_make(desc.addr, desc.devices[0].pieces, desc.devices[0].count,
				      desc.generation, &offer->remote);
	else
		ret = odd_peer(fabric, "a descriptor without its one device");
	offer->length = desc.length;
	mrg_descriptor_release(&desc);
	return ret;
}

int fabric_take_offer(struct fabric *fabric, struct mrg_ep *ep, struct fabric_offer *offer)
{
	json_t *object = fabric_receive(fabric, ep, ANSWER_MS);
	const char *format, *name;
	json_int_t length;
	char *bytes;
	int writable, ret;

	if (!object)
		return fabric->error.code;
	if (json_unpack(object, "{s:s, s:s, s:b, s:I}", "format", &format, "name", &name,
			"writable", &writable, "descriptor", &length) ||
	    strcmp(format, OFFER_FORMAT) || length < 1 || length > MRG_DESC_MAX_BYTES) {
		json_decref(object);
		return odd_peer(fabric, "no offer of `mrguard serve'");
	}
	snprintf(offer->name, sizeof(offer->name), "%s", name);
	offer->writable = writable;
	json_decref(object);
	bytes = malloc((size_t)length);
	ret = bytes ? receive_bytes(fabric, ep, bytes, (size_t)length) : -ENOMEM;
	if (!ret)
		ret = decode(fabric, bytes, (size_t)length, offer);
	free(bytes);
	return ret;
}

/* ---- the checksum ---- */

uint64_t fabric_sum(uint64_t sum, const void *bytes, uint64_t length)
{
	const unsigned char *at = bytes;
	uint64_t word;

	for (; length >= sizeof(word); length -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		sum = (sum ^ word) * 0x9fb21c651e98df25ULL;
		sum ^= sum >> 29;
	}
	if (!length)
		return sum;
	word = length;
	for (uint64_t i = 0; i < length; i++)
		word = word << 8 | at[i];
	sum = (sum ^ word) * 0x9fb21c651e98df25ULL;
	return sum ^ sum >> 29;
}
