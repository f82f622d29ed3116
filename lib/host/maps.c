/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "host/maps.h"

/* Room for the longest line: a path of PATH_MAX with each byte as \ooo. */
#define BUFFER_SIZE (64u << 10)

int host_maps_open(struct host_maps *maps, const char *path)
{
	*maps = (struct host_maps){ .fd = open(path, O_RDONLY | O_CLOEXEC) };
	if (maps->fd < 0)
		return -errno;
	maps->buf = malloc(BUFFER_SIZE);
	if (!maps->buf) {
		close(maps->fd);
		return -ENOMEM;
	}
	return 0;
}

void host_maps_close(struct host_maps *maps)
{
	close(maps->fd);
	free(maps->buf);
}

static ssize_t read_again(int fd, char *buf, size_t size)
{
	ssize_t got;

	do
		got = read(fd, buf, size);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

static int refill(struct host_maps *maps)
{
	ssize_t got;

	memmove(maps->buf, maps->buf + maps->head, maps->tail - maps->head);
	maps->tail -= maps->head;
	maps->head = 0;
	if (maps->tail == BUFFER_SIZE)
		return -EBADMSG;
	got = read_again(maps->fd, maps->buf + maps->tail, BUFFER_SIZE - maps->tail);
	if (got < 0)
		return (int)got;
	maps->tail += (size_t)got;
	maps->eof = got == 0;
	return 0;
}

/*
 * Points @line at the next line and gives its length with the newline; 0 at
 * the end.  The line stays unread until skip_line().
 */
static ssize_t peek_line(struct host_maps *maps, char **line)
{
	for (;;) {
		char *start = maps->buf + maps->head;
		size_t left = maps->tail - maps->head;
		char *end = memchr(start, '\n', left);
		int ret;

		*line = start;
		if (end)
			return end - start + 1;
		/* A file cut off in the middle of a line is no evidence. */
		if (maps->eof)
			return left ? -EBADMSG : 0;
		ret = refill(maps);
		if (ret)
			return ret;
	}
}

static void skip_line(struct host_maps *maps, size_t len)
{
	maps->head += len;
	maps->line++;
}

static unsigned int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned int)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (unsigned int)(c - 'a' + 10);
	return 16;
}

/* Both read a number and the character @end after it. */
static const char *read_hex(const char *at, char end, uint64_t *value)
{
	const char *start = at;
	unsigned int digit;

	for (*value = 0; (digit = hex_digit(*at)) < 16; at++)
		*value = *value << 4 | digit;
	return at > start && at - start <= 16 && *at == end ? at + 1 : NULL;
}

static const char *read_decimal(const char *at, uint64_t *value)
{
	const char *start = at;

	for (*value = 0; *at >= '0' && *at <= '9'; at++)
		*value = *value * 10 + (uint64_t)(*at - '0');
	return at > start && at - start <= 20 ? at : NULL;
}

static const char *read_perms(const char *at, char perms[5])
{
	static const char *const allowed[4] = { "r-", "w-", "x-", "ps" };

	for (int i = 0; i < 4; i++) {
		if (!at[i] || !strchr(allowed[i], at[i]))
			return NULL;
		perms[i] = at[i];
	}
	perms[4] = '\0';
	return at[4] == ' ' ? at + 5 : NULL;
}

static const char *read_dev(const char *at, uint32_t *dev)
{
	uint64_t major, minor;

	at = read_hex(at, ':', &major);
	if (!at)
		return NULL;
	at = read_hex(at, ' ', &minor);
	*dev = (uint32_t)(major << 20 | (minor & 0xfffff));
	return at;
}

static void read_name(const char *at, struct host_maps_vma *vma)
{
	size_t len;

	while (*at == ' ')
		at++;
	len = strcspn(at, "\n");
	if (len >= sizeof(vma->name))
		len = sizeof(vma->name) - 1;
	memcpy(vma->name, at, len);
	vma->name[len] = '\0';
}

/* START-END PERMS OFFSET MAJOR:MINOR INODE [NAME]; see proc(5). */
static int parse_header(const char *at, struct host_maps_vma *vma)
{
	if (!(at = read_hex(at, '-', &vma->start)) || !(at = read_hex(at, ' ', &vma->end)) ||
	    !(at = read_perms(at, vma->perms)) || !(at = read_hex(at, ' ', &vma->offset)) ||
	    !(at = read_dev(at, &vma->dev)) || !(at = read_decimal(at, &vma->inode)) ||
	    vma->end <= vma->start)
		return -EBADMSG;
	read_name(at, vma);
	vma->detailed = false;
	vma->flags = vma->other_flags = vma->page_size = vma->anon = 0;
	return 0;
}

#define CODE(a, b) ((a) << 8 | (b))

static uint64_t known_flag(int code)
{
	switch (code) {
	case CODE('d', 'c'):
		return HOST_MF_DONTCOPY;
	case CODE('s', 'd'):
		return HOST_MF_SOFTDIRTY;
	case CODE('i', 'o'):
		return HOST_MF_IO;
	case CODE('d', 'e'):
		return HOST_MF_DONTEXPAND;
	case CODE('p', 'f'):
		return HOST_MF_PFNMAP;
	case CODE('m', 'm'):
		return HOST_MF_MIXEDMAP;
	case CODE('h', 't'):
		return HOST_MF_HUGETLB;
	case CODE('s', 'h'):
		return HOST_MF_SHARED;
	case CODE('w', 'r'):
		return HOST_MF_WRITE;
	}
	return 0;
}

/* Two letters and a space a flag, in a fixed order: a hash tells sets apart. */
static void parse_flags(const char *at, struct host_maps_vma *vma)
{
	for (; at[0] != '\n'; at += at[2] == ' ' ? 3 : 2) {
		int code = CODE((unsigned char)at[0], (unsigned char)at[1]);
		uint64_t flag;

		if (at[1] == '\n')
			break;
		flag = known_flag(code);
		vma->flags |= flag;
		if (!flag)
			vma->other_flags =
				(vma->other_flags ^ (uint64_t)code) * 0x9e3779b97f4a7c15ULL;
	}
	vma->detailed = true;
}

#define HAS_KEY(line, len, key) ((len) >= sizeof(key) && !memcmp(line, key, sizeof(key) - 1))

static uint64_t parse_kib(const char *at)
{
	uint64_t value = 0;

	while (*at == ' ')
		at++;
	read_decimal(at, &value);
	return value << 10;
}

static void parse_detail(const char *line, size_t len, struct host_maps_vma *vma)
{
	if (HAS_KEY(line, len, "VmFlags: "))
		parse_flags(line + 9, vma);
	else if (HAS_KEY(line, len, "KernelPageSize:"))
		vma->page_size = parse_kib(line + 15);
	else if (HAS_KEY(line, len, "Anonymous:"))
		vma->anon = parse_kib(line + 10);
}

int host_maps_next(struct host_maps *maps, struct host_maps_vma *vma)
{
	char *line;
	ssize_t len = peek_line(maps, &line);
	int ret;

	if (len <= 0)
		return (int)len;
	ret = parse_header(line, vma);
	if (ret)
		return ret;
	skip_line(maps, (size_t)len);
	while ((len = peek_line(maps, &line)) > 0 && line[0] >= 'A' && line[0] <= 'Z') {
		parse_detail(line, (size_t)len, vma);
		skip_line(maps, (size_t)len);
	}
	return len < 0 ? (int)len : 1;
}

/* The vsyscall page stands last, at the top of the address space (x86). */
static bool ends_with_vsyscall(const char *buf, size_t len)
{
	static const char name[] = "[vsyscall]\n";
	size_t size = sizeof(name) - 1;

	return len >= size && !memcmp(buf + len - size, name, size);
}

ssize_t host_maps_count(const char *path)
{
	struct host_maps maps;
	ssize_t lines = 0, got;
	bool vsyscall = false;
	int ret = host_maps_open(&maps, path);

	if (ret)
		return ret;
	while ((got = read_again(maps.fd, maps.buf, BUFFER_SIZE)) > 0) {
		for (const char *at = maps.buf, *end = at + got;
		     (at = memchr(at, '\n', (size_t)(end - at))); at++)
			lines++;
		vsyscall = ends_with_vsyscall(maps.buf, (size_t)got);
	}
	host_maps_close(&maps);
	return got < 0 ? got : lines - vsyscall;
}

uint64_t host_maps_page_size(const char *path, uint64_t addr, uint64_t length)
{
	struct host_maps_vma vma;
	struct host_maps maps;
	uint64_t largest = 0;

	if (host_maps_open(&maps, path))
		return 0;
	while (host_maps_next(&maps, &vma) == 1 && vma.start < addr + length)
		if (vma.end > addr && vma.page_size > largest)
			largest = vma.page_size;
	host_maps_close(&maps);
	return largest;
}

/* As in linux/fs.h since 6.11: struct procmap_query, PROCMAP_QUERY. */
struct map_query {
	uint64_t size;
	uint64_t flags;
	uint64_t addr;
	uint64_t start;
	uint64_t end;
	uint64_t vma_flags;
	uint64_t page_size;
	uint64_t offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t name_size;
	uint32_t build_id_size;
	uint64_t name_addr;
	uint64_t build_id_addr;
};
#define MAP_QUERY _IOWR('f', 17, struct map_query)
#define MAP_QUERY_READABLE 0x01
#define MAP_QUERY_WRITABLE 0x02
#define MAP_QUERY_EXECUTABLE 0x04
#define MAP_QUERY_SHARED 0x08

int host_maps_query(int fd, uint64_t addr, struct host_maps_vma *vma)
{
	struct map_query q = { .size = sizeof(q), .addr = addr };

	if (ioctl(fd, MAP_QUERY, &q))
		return -errno;
	*vma = (struct host_maps_vma){
		.start = q.start,
		.end = q.end,
		.offset = q.offset,
		.inode = q.inode,
		.dev = q.dev_major << 20 | (q.dev_minor & 0xfffff),
		.perms = {
			q.vma_flags & MAP_QUERY_READABLE ? 'r' : '-',
			q.vma_flags & MAP_QUERY_WRITABLE ? 'w' : '-',
			q.vma_flags & MAP_QUERY_EXECUTABLE ? 'x' : '-',
			q.vma_flags & MAP_QUERY_SHARED ? 's' : 'p',
		},
		.page_size = q.page_size,
	};
	return 0;
}
