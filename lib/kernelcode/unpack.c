/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "kernelcode/kernelcode.h"

/* The largest module of a distribution has some 10 MiB; vmlinux's BTF has 6. */
#define MAX_FILE (64u << 20)
#define MAX_LZMA_MEMORY (128u << 20)

static uint8_t *read_all(int fd, size_t *size)
{
	size_t room = 1u << 20, have = 0;
	uint8_t *data = malloc(room), *more;
	ssize_t n = 1;

	while (data && n) {
		if (have == room) {
			more = room < MAX_FILE ? realloc(data, 2 * room) : NULL;
			if (!more)
				break;
			data = more;
			room *= 2;
		}
		n = read(fd, data + have, room - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		have += (size_t)n;
	}
	/* Text that was read ends with a NUL. */
	if (data && !n && have < room) {
		data[have] = 0;
		*size = have;
		return data;
	}
	free(data);
	return NULL;
}

/* Each fills @out and returns how many bytes came; 0: it is damaged or too large. */

static size_t unpack_xz(const uint8_t *in, size_t size, uint8_t *out)
{
	uint64_t memory = MAX_LZMA_MEMORY;
	size_t in_pos = 0, out_pos = 0;
	lzma_ret ret = lzma_stream_buffer_decode(&memory, 0, NULL, in, &in_pos, size, out, &out_pos,
						 MAX_FILE);

	return ret == LZMA_OK ? out_pos : 0;
}

static size_t unpack_zstd(const uint8_t *in, size_t size, uint8_t *out)
{
	size_t n = ZSTD_decompress(out, MAX_FILE, in, size);

	return ZSTD_isError(n) ? 0 : n;
}

static size_t unpack_gzip(const uint8_t *in, size_t size, uint8_t *out)
{
	z_stream z = { .next_in = (Bytef *)in,
		       .avail_in = (uInt)size,
		       .next_out = out,
		       .avail_out = MAX_FILE };
	int ret;

	if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
		return 0;
	ret = inflate(&z, Z_FINISH);
	inflateEnd(&z);
	return ret == Z_STREAM_END ? z.total_out : 0;
}

static const struct {
	const char *magic;
	size_t length;
	const char *name;
	size_t (*unpack)(const uint8_t *in, size_t size, uint8_t *out);
} packings[] = {
	{ "\xfd"
	  "7zXZ",
	  6, "xz", unpack_xz },
	{ "\x28\xb5\x2f\xfd", 4, "zstd", unpack_zstd },
	{ "\x1f\x8b", 2, "gzip", unpack_gzip },
};

static uint8_t *unpack(uint8_t *packed, size_t *size, size_t kind, struct kernelcode_why *why)
{
	uint8_t *data = malloc(MAX_FILE);
	size_t n = data ? packings[kind].unpack(packed, *size, data) : 0;

	free(packed);
	if (n) {
		*size = n;
		return data;
	}
	free(data);
	kernelcode_fails(why, "The file cannot be unpacked as %s.", packings[kind].name);
	return NULL;
}

uint8_t *kernelcode_read(int fd, size_t *size, struct kernelcode_why *why)
{
	uint8_t *data = read_all(fd, size);

	if (!data) {
		kernelcode_fails(why, "The file cannot be read, or has more than %u MiB.",
				 MAX_FILE >> 20);
		return NULL;
	}
	for (size_t i = 0; i < sizeof(packings) / sizeof(packings[0]); i++)
		if (*size > packings[i].length &&
		    !memcmp(data, packings[i].magic, packings[i].length))
			return unpack(data, size, i, why);
	return data;
}
