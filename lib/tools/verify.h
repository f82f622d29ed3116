/* SPDX-License-Identifier: MIT */
/*
 * Is every byte where it should be?  Moves tagged blocks into a registered
 * buffer and out of it, and looks at the buffer by a way that does not go
 * through the registration under test.
 */
#ifndef TOOLS_VERIFY_H
#define TOOLS_VERIFY_H

#include "tools/rc_loop.h"

struct verify_span {
	uint64_t offset;
	uint64_t length;
};

enum verify_way {
	VERIFY_INTO, /* WRITE to the buffer, or READ into it */
	VERIFY_OUT_OF, /* READ of the buffer, or WRITE from it */
	VERIFY_WAYS,
};

enum verify_kind {
	VERIFY_MOVED, /* the bytes of one place went to, or came from, another */
	VERIFY_OVERWRITTEN, /* right at first, then another place's bytes */
	VERIFY_LOST, /* not here, and nowhere that was looked at */
	VERIFY_NOISE, /* bytes of no block at all */
	VERIFY_KINDS,
};

/**
 * struct verify_fault - a stretch that is wrong in one way
 * @distance: from @offset to the other place, for MOVED and OVERWRITTEN
 */
struct verify_fault {
	enum verify_way way;
	enum verify_kind kind;
	uint64_t offset;
	uint64_t length;
	int64_t distance;
};

/* The buffer past the registration.  Both return 0 or -errno. */
struct verify_truth {
	int (*read)(void *arg, uint64_t offset, void *buf, uint64_t length);
	int (*write)(void *arg, uint64_t offset, const void *buf, uint64_t length);
	void *arg;
};

/**
 * struct verify - what is tested, and with what
 * @end:	posts the requests
 * @tested_is_local: the buffer is on the posting side, else on the other
 * @keys:	of the buffer, by offset; as mrg_keys()
 * @bounce, @bounce_mem: registered memory on the other side than the buffer,
 *		and where this process sees it; longer spans go in parts
 * @truth:	see struct verify_truth
 * @size:	of the buffer
 * @span_done:	NULL, or called after each span, with the faults found in it
 *
 * Filled in, and to be released with verify_release():
 * @faults, @fault_count; @compared: bytes; @bad: wrong ones right after their
 *		own transfer; @overwritten: later
 */
struct verify {
	struct rc_end *end;
	bool tested_is_local;
	ssize_t (*keys)(void *arg, uint64_t offset, uint64_t length, struct mrg_seg *segs,
			size_t cap);
	void *keys_arg;
	struct mrg_seg bounce;
	void *bounce_mem;
	const struct verify_truth *truth;
	uint64_t size;
	void (*span_done)(void *arg, const struct verify_span *span,
			  const struct verify_fault *faults, size_t count);
	void *span_done_arg;

	struct verify_fault *faults;
	size_t fault_count;
	size_t fault_room;
	uint64_t compared;
	uint64_t bad;
	uint64_t overwritten;
	unsigned int round;
	enum verify_way way;
};

/**
 * verify_run() - test spans, which must not overlap, in one way
 *
 * Return: 0, also where bytes were wrong; -errno of a transfer (@v->end->fault
 * tells), of the truth, or -ENOMEM.
 */
int verify_run(struct verify *v, enum verify_way way, const struct verify_span *spans,
	       size_t count);
void verify_release(struct verify *v);

/** struct verify_spans - where to look */
struct verify_spans {
	struct verify_span *blocks; /* scattered, none overlaps another */
	size_t count;
	struct verify_span *lines; /* across multiples of 2 GiB in iova */
	size_t line_count;
	struct verify_span tails[6]; /* all end at the last byte */
	size_t tail_count;
};

/**
 * verify_spans_make() - choose them
 * @count: blocks wanted; fewer where they would not fit
 * @block: bytes of each
 *
 * Blocks come in rows at distances of 2 GiB, so that whatever wraps at a power
 * of two from there on meets another block.  Return: 0, -ENOMEM.
 */
int verify_spans_make(struct verify_spans *spans, uint64_t size, uint64_t iova, size_t count,
		      uint64_t block);
void verify_spans_free(struct verify_spans *spans);
/** verify_spans_run() - all of them in one way */
int verify_spans_run(struct verify *v, enum verify_way way, const struct verify_spans *spans);
/** verify_spans_count() - how many spans one way has */
size_t verify_spans_count(const struct verify_spans *spans);

#endif
