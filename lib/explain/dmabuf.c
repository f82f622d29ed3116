/* SPDX-License-Identifier: MIT */
/* Causes in a DMA-BUF: the fd, the device, the exporter. */
#include <errno.h>
#include <string.h>

#include "explain/explain.h"
#include "explain/refusal.h"

static bool no_dmabuf_error(const struct explain_evidence *evidence, int error,
			    struct mrg_finding *finding)
{
	bool registers_dmabuf = evidence->opts.call == MRG_CALL_REG_DMABUF_MR;

	if (!registers_dmabuf)
		explain_rule_out(finding, "%s takes no DMA-BUF.",
				 mrg_call_name(evidence->opts.call));
	else if (evidence->opts.error != error)
		explain_rule_out(finding, "It gives %s.", strerrorname_np(error));
	return !registers_dmabuf || evidence->opts.error != error;
}

void explain_dmabuf_size(const struct explain_evidence *evidence, struct mrg_finding *finding)
{
	const struct mrg_explain_opts *opts = &evidence->opts;
	struct explain_refusal words;

	if (no_dmabuf_error(evidence, EINVAL, finding))
		return;
	explain_refusal_size(opts->dmabuf_size, opts->offset, opts->length, &words);
	if (!opts->dmabuf_size || !opts->length)
		explain_say(
			finding, MRG_NOT_SEEN,
			"Give length, offset and the DMA-BUF's size (its line in /proc/PID/fdinfo/FD).",
			"The %s is not given.", opts->length ? "DMA-BUF's size" : "range's length");
	else
		explain_say(finding,
			    opts->offset + opts->length > opts->dmabuf_size ? MRG_IS : MRG_IS_NOT,
			    words.remedy, "%s", words.text);
}

void explain_page_offset(const struct explain_evidence *evidence, struct mrg_finding *finding)
{
	const struct mrg_explain_opts *opts = &evidence->opts;
	struct explain_refusal words;

	if (no_dmabuf_error(evidence, EINVAL, finding))
		return;
	explain_refusal_page_offset(evidence->host_page, opts->addr, opts->offset, &words);
	if (!opts->addr || (!opts->offset && !opts->dmabuf_size))
		explain_say(
			finding, MRG_NOT_SEEN,
			"Give address, offset and the DMA-BUF's size (its line in /proc/PID/fdinfo/FD).",
			"The %s is not given.", opts->addr ? "offset in the DMA-BUF" : "address");
	else
		explain_say(finding,
			    (opts->addr ^ opts->offset) & (evidence->host_page - 1) ? MRG_IS :
										      MRG_IS_NOT,
			    words.remedy, "%s", words.text);
}

static bool tells_no_support(int error)
{
	return error == EOPNOTSUPP || error == EPROTONOSUPPORT || error == ENOTTY ||
	       error == ENOSYS;
}

void explain_dmabuf_support(const struct explain_evidence *evidence, struct mrg_finding *finding)
{
	const struct mrg_explain_opts *opts = &evidence->opts;
	struct explain_refusal words;

	explain_refusal_support(LACK_EITHER, opts->device ? opts->device : "the device",
				evidence->dmabuf_answer, &words);
	if (opts->call != MRG_CALL_REG_DMABUF_MR)
		explain_rule_out(finding, "%s takes no DMA-BUF.", mrg_call_name(opts->call));
	else if (!tells_no_support(opts->error))
		explain_rule_out(finding,
				 "Who lacks DMA-BUF MRs answers EOPNOTSUPP or EPROTONOSUPPORT.");
	else if (evidence->dmabuf_answer == -EBADF)
		explain_rule_out(finding, "Device %s takes DMA-BUFs: fd -1 gets EBADF.",
				 opts->device ? opts->device : "of the call");
	else if (evidence->dmabuf_answer)
		explain_say(finding, MRG_IS, words.remedy, "%s", words.text);
	else if (opts->error == EPROTONOSUPPORT)
		explain_say(
			finding, MRG_MAY_BE, words.remedy,
			"The kernel's RDMA core says EPROTONOSUPPORT to a call that it does not know: DMA-BUF MRs came with Linux 5.12.");
	else
		explain_say(finding, MRG_NOT_SEEN, "Name the device, so that it can be asked.",
			    "Whether the device takes DMA-BUFs is not known.");
}

/* What else may give the errno stands with its own cause. */
void explain_exporter(const struct explain_evidence *evidence, struct mrg_finding *finding)
{
	const struct mrg_explain_opts *opts = &evidence->opts;
	int error = opts->error;
	struct explain_refusal words;

	explain_refusal_exporter(-error, opts->device ? opts->device : "the device", &words);
	if (opts->call != MRG_CALL_REG_DMABUF_MR)
		explain_rule_out(finding, "%s takes no DMA-BUF.", mrg_call_name(opts->call));
	else if (error == ENOTSUPP)
		explain_say(finding, MRG_IS, words.remedy, "%s", words.text);
	else if (tells_no_support(error) && evidence->dmabuf_answer &&
		 evidence->dmabuf_answer != -EBADF)
		explain_rule_out(finding,
				 "The exporter was not reached: the device takes no DMA-BUFs.");
	else if (error == EOPNOTSUPP && evidence->dmabuf_answer != -EBADF)
		explain_say(finding, MRG_MAY_BE, words.remedy,
			    "An exporter that does not let the device in can give this as well.");
	else if (error == EFAULT || error == EINVAL || error == ENOMEM || tells_no_support(error))
		explain_say(finding, MRG_MAY_BE, words.remedy, "%s", words.text);
	else
		explain_rule_out(finding,
				 "Exporters give 524, EOPNOTSUPP, EINVAL, EFAULT or ENOMEM.");
}
