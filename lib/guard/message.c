/* SPDX-License-Identifier: MIT */
/* Each line is one write(), so that lines of several threads do not mix. */
#include <inttypes.h>

#include "guard/message.h"
#include "guard/names.h"
#include "guard/sigsafe.h"

void guard_message(const struct guard_process *p, const char *format, ...)
{
	struct guard_sigsafe t;
	va_list args;

	guard_sigsafe_begin(&t, guard_process_stderr(p));
	guard_sigsafe_print(&t, "mrguard: ");
	va_start(args, format);
	guard_sigsafe_vprint(&t, format, args);
	va_end(args);
	guard_sigsafe_print(&t, "\n");
	guard_sigsafe_end(&t);
}

static void put_range(struct guard_sigsafe *t, const struct guard_request *req)
{
	guard_sigsafe_print(t, "%s of %s (%#" PRIx64 " bytes) at ", guard_call_name(req->call),
			    guard_size(req->length).text, req->length);
	if (req->fd < 0)
		guard_sigsafe_print(t, "%#" PRIx64, req->addr);
	if (req->fd < 0 && req->iova != req->addr)
		guard_sigsafe_print(t, ", ");
	if (req->fd >= 0 || req->iova != req->addr)
		guard_sigsafe_print(t, "iova %#" PRIx64, req->iova);
	if (req->fd >= 0)
		guard_sigsafe_print(t, ", offset %#" PRIx64 " of DMA-BUF fd %d", req->offset,
				    req->fd);
}

void guard_message_finding(const struct guard_process *p, const char *done,
			   const struct guard_request *req, const struct guard_finding *finding,
			   const char *remedy)
{
	struct guard_sigsafe t;

	guard_sigsafe_begin(&t, guard_process_stderr(p));
	guard_sigsafe_print(&t, "mrguard: %s ", done);
	put_range(&t, req);
	guard_sigsafe_print(&t, ", on %s (%s): %s. %s", req->pd->context->device->name,
			    guard_path_name(finding->path), mrg_verdict_name(finding->verdict),
			    guard_grounds_sentence(finding->grounds));
	if (finding->reason[0])
		guard_sigsafe_print(&t, " %s", finding->reason);
	guard_sigsafe_print(&t, "%s%s\n", *remedy ? " " : "", remedy);
	guard_sigsafe_end(&t);
}
