/* SPDX-License-Identifier: MIT */
/* Can GPU memory be registered through a DMA-BUF at all? */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "explain/explain.h"

#define FD_ANSWERS "registration with fd -1 answers %s"

/*
 * A registration with fd -1 fails in any case, and how it fails tells who does
 * not know DMA-BUFs: EBADF means that all know them, EOPNOTSUPP (ENOSYS of older
 * libraries) the provider or the driver, EPROTONOSUPPORT the kernel.  Any other
 * errno is about something else: memory, or a device that has gone.
 */
static int ask_device(void *arg, char *buf, size_t cap)
{
	struct ibv_context *device = explain_open_device(arg);
	int rc, answer;

	if (!device)
		return -errno;
	rc = explain_ask_dmabuf(device, &answer);
	snprintf(buf, cap, "%d", -answer);
	ibv_close_device(device);
	return rc;
}

/* The device's errno, or why it could not be asked as a negative one. */
static int probe_device(struct check_ctx *ctx, const struct check_rdma *r)
{
	char fact[96], buf[32];
	ssize_t n;

	snprintf(fact, sizeof(fact), "dmabuf-%s", r->name);
	n = host_tree_fact(ctx->tree, fact, buf, sizeof(buf), ask_device, (void *)r->name);
	return n < 0 ? (int)n : atoi(buf);
}

/* Asks for nothing that is new enough already. */
static const char *remedy_without(const struct check_ctx *ctx, int err)
{
	if (!check_kernel_at_least(&ctx->host, 5, 12, 0))
		return "GPU memory needs a kernel from 5.12 on and rdma-core from 34 on, or peermem.";
	if (err == EPROTONOSUPPORT)
		return "GPU memory needs the kernel's own RDMA core or a newer one of the vendor, or peermem.";
	return "GPU memory needs a newer driver or rdma-core that serves this device, another NIC, or peermem.";
}

static void judge_device(struct check_ctx *ctx, const struct check_rdma *r, int err)
{
	const char *name = strerror(err);

	if (err < 0)
		check_add(ctx, MRG_CHECK_UNKNOWN, r->name,
			  "Whether the device takes DMA-BUFs is not known.",
			  "Run as root or as a member of group rdma.",
			  "device could not be opened: %s", check_why(err));
	else if (err == EBADF)
		check_add(ctx, MRG_CHECK_OK, r->name, "Provider and kernel take DMA-BUFs.", "",
			  FD_ANSWERS, name);
	else if (err == EOPNOTSUPP || err == ENOSYS || err == EPROTONOSUPPORT)
		check_add(ctx, MRG_CHECK_WARN, r->name,
			  err == EPROTONOSUPPORT ?
				  "The kernel's RDMA core has no DMA-BUF registration." :
				  "The device's provider or driver has no DMA-BUF registration.",
			  remedy_without(ctx, err), FD_ANSWERS, name);
	else
		check_add(
			ctx, MRG_CHECK_UNKNOWN, r->name,
			"The probe itself failed: whether the device takes DMA-BUFs is not known.",
			"Check that the device works (rdma link, dmesg), and check again.",
			FD_ANSWERS, name);
}

/* @answered: a device took a DMA-BUF, whatever the kernel's version says: some
 * distributions' older ones have it. */
static void judge_config(struct check_ctx *ctx, bool answered)
{
	char p2p = check_config(ctx, "PCI_P2PDMA"), evidence[192];
	const struct check_host *h = &ctx->host;
	bool old = !answered && h->kernel[0] && !check_kernel_at_least(h, 5, 12, 0);

	snprintf(evidence, sizeof(evidence),
		 "kernel %u.%u.%u, CONFIG_PCI_P2PDMA %s (/boot/config-%.100s)", h->kernel[0],
		 h->kernel[1], h->kernel[2],
		 p2p == 'y' ? "=y" :
		 p2p	    ? "not set" :
			      "not readable",
		 h->release);
	if (old)
		check_add(ctx, MRG_CHECK_FAIL, "",
			  "This kernel exports DMA-BUFs, but verbs take them from 5.12 on.",
			  "Update the kernel to 5.12 or later.", "%s", evidence);
	else if (p2p == 'n')
		check_add(ctx, h->gpu_count ? MRG_CHECK_FAIL : MRG_CHECK_WARN, "",
			  "Without PCI peer-to-peer support GPU memory cannot be mapped for a NIC.",
			  "Boot a kernel with CONFIG_PCI_P2PDMA=y.", "%s", evidence);
	else if (!p2p)
		check_add(ctx, MRG_CHECK_UNKNOWN, "", "The kernel's configuration cannot be read.",
			  "", "%s", evidence);
	else
		check_add(ctx, MRG_CHECK_OK, "", "The kernel can map GPU memory for a NIC.", "",
			  "%s", evidence);
}

/*
 * The kernel's own amdgpu exports for other devices only with HSA_AMD_P2P; the
 * one from AMD's packages brings its own.  DMABUF_MOVE_NOTIFY, which is asked
 * for elsewhere, has had two spellings and is gone from new kernels.
 */
static void judge_amd(struct check_ctx *ctx)
{
	char path[192];
	size_t i = 0;

	while (i < ctx->host.gpu_count && ctx->host.gpus[i].vendor != VENDOR_AMD)
		i++;
	snprintf(path, sizeof(path), "/lib/modules/%.120s/updates/dkms/amdgpu.ko",
		 ctx->host.release);
	if (i == ctx->host.gpu_count || check_config(ctx, "HSA_AMD_P2P") != 'n' ||
	    host_tree_exists(ctx->tree, path))
		return;
	check_add(ctx, MRG_CHECK_WARN, "amd",
		  "The kernel's own amdgpu does not let other devices map its memory.",
		  "Boot a kernel with CONFIG_HSA_AMD_P2P=y, or install AMD's amdgpu-dkms.",
		  "CONFIG_HSA_AMD_P2P not set (/boot/config)");
}

/*
 * NVIDIA offers GPUDirect RDMA on its data centre and workstation GPUs alone.
 * Return: whether all models were readable; @consumer gets one that has none.
 */
static bool read_models(struct check_ctx *ctx, char *consumer, size_t room)
{
	char **names, path[128], text[1024], *model;
	ssize_t n = host_tree_list(ctx->tree, "/proc/driver/nvidia/gpus", &names), read = 0;

	for (ssize_t i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%.40s/information",
			 names[i]);
		if (host_tree_read(ctx->tree, path, text, sizeof(text)) <= 0 ||
		    !(model = strstr(text, "Model:")))
			continue;
		read++;
		model += strlen("Model:");
		model += strspn(model, " \t");
		model[strcspn(model, "\n")] = 0;
		if (strstr(model, "GeForce") || strstr(model, "TITAN"))
			snprintf(consumer, room, "%.60s (%.20s)", model, names[i]);
	}
	if (n > 0)
		host_tree_free_names(names, n);
	return read > 0 && read == n;
}

static void judge_open(struct check_ctx *ctx, const char *version)
{
	char consumer[96] = "";
	bool known = read_models(ctx, consumer, sizeof(consumer));

	if (consumer[0]) {
		check_add(
			ctx, MRG_CHECK_FAIL, "nvidia",
			"NVIDIA offers GPUDirect RDMA on data centre and workstation GPUs, not on this one: its memory is not exported.",
			"Use a data centre or workstation GPU, or copy through host memory.",
			"%s (/proc/driver/nvidia/gpus/*/information); %.120s", consumer, version);
		return;
	}
	ctx->basis = known ? MRG_BASIS_READ : MRG_BASIS_INFERRED;
	check_add(ctx, MRG_CHECK_OK, "nvidia", "The open modules export DMA-BUFs.",
		  known ? "" : "To be sure, ask the driver: 'mrguard gpu'.",
		  "%s (/proc/driver/nvidia/version)%s", version,
		  known ? "" : "; the GPUs' models were not readable");
	ctx->basis = MRG_BASIS_READ;
}

static void judge_nvidia(struct check_ctx *ctx)
{
	char text[256];
	ssize_t n = host_tree_read(ctx->tree, "/proc/driver/nvidia/version", text, sizeof(text));
	size_t i = 0;

	while (i < ctx->host.gpu_count && ctx->host.gpus[i].vendor != VENDOR_NVIDIA)
		i++;
	if (i == ctx->host.gpu_count)
		return;
	if (n <= 0) {
		check_add(ctx, MRG_CHECK_WARN, "nvidia",
			  "An NVIDIA GPU without NVIDIA's driver exports no DMA-BUF.",
			  "Install NVIDIA's open kernel modules.",
			  "/proc/driver/nvidia/version is not there");
		return;
	}
	text[strcspn(text, "\n")] = 0;
	if (strstr(text, "Open Kernel Module"))
		judge_open(ctx, text);
	else
		check_add(ctx, MRG_CHECK_FAIL, "nvidia",
			  "The proprietary kernel modules export no DMA-BUF.",
			  "Install the open flavour of the same driver version.",
			  "%s (/proc/driver/nvidia/version)", text);
}

void check_dmabuf(struct check_ctx *ctx)
{
	const struct check_host *host = &ctx->host;
	int answers[CHECK_MAX_DEVICES];
	bool answered = false;

	if (!host->rdma_count) {
		check_add(ctx, MRG_CHECK_SKIP, "", "", "", "no RDMA device");
		return;
	}
	for (size_t i = 0; i < host->rdma_count; i++) {
		bool asked = !ctx->opts->device || !strcmp(ctx->opts->device, host->rdma[i].name);

		answers[i] = asked ? probe_device(ctx, &host->rdma[i]) : 0;
		answered |= answers[i] == EBADF;
	}
	judge_config(ctx, answered);
	judge_nvidia(ctx);
	judge_amd(ctx);
	ctx->basis = MRG_BASIS_ASKED;
	for (size_t i = 0; i < host->rdma_count; i++)
		if (!ctx->opts->device || !strcmp(ctx->opts->device, host->rdma[i].name))
			judge_device(ctx, &host->rdma[i], answers[i]);
}
