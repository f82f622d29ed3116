/* SPDX-License-Identifier: MIT */
/*
 * The older way to GPU memory: a client module that registers itself with the
 * vendor's ib_core.  Loaded is not registered: it is built empty where the
 * peer symbols were missing, and then does nothing.
 */
#include <string.h>

#include "check/check.h"
#include "host/peermem.h"

static bool any_is_there(struct check_ctx *ctx, const char *const *names)
{
	char path[96];

	for (; *names; names++) {
		snprintf(path, sizeof(path), "/sys/%s", *names);
		if (host_tree_exists(ctx->tree, path))
			return true;
	}
	return false;
}

/* The module that is loaded, by its name in /sys; NULL: none. */
static const char *loaded(struct check_ctx *ctx)
{
	if (host_tree_exists(ctx->tree, "/sys/module/nvidia_peermem"))
		return "nvidia_peermem";
	return host_tree_exists(ctx->tree, "/sys/module/nv_peer_mem") ? "nv_peer_mem" : NULL;
}

/* The one that is built and installed, wherever the driver's packages put it;
 * NULL: none. */
static const char *installed(const struct check_ctx *ctx)
{
	const char *text = ctx->host.modules_dep;

	return !text				  ? NULL :
	       strstr(text, "/nvidia-peermem.ko") ? "nvidia-peermem" :
	       strstr(text, "/nv_peer_mem.ko")	  ? "nv_peer_mem" :
						    NULL;
}

/* What has to be reinstalled to have the module built anew. */
static const char *where_from(const char *module)
{
	return strcmp(module, "nv_peer_mem") ? "the GPU driver" : module;
}

static void not_loaded(struct check_ctx *ctx)
{
	const char *module = ctx->host.vendor_core ? installed(ctx) : NULL;
	char remedy[160];

	if (!module) {
		check_add(
			ctx, MRG_CHECK_SKIP, "",
			ctx->host.vendor_core ?
				"DMA-BUF is the way to GPU memory here." :
				"Peermem cannot work with the kernel's own ib_core; DMA-BUF is the way to GPU memory.",
			"", "nvidia_peermem is not loaded (/sys/module)");
		return;
	}
	snprintf(
		remedy, sizeof(remedy),
		"Run 'modprobe %s'; if the kernel refuses it, reinstall %s after the vendor's RDMA stack.",
		module, where_from(module));
	check_add(
		ctx, MRG_CHECK_WARN, "",
		"The module is not loaded, or was refused (\"Invalid argument\", -22): it was built for another ib_core.",
		remedy, "installed (modules.dep), but not loaded (/sys/module)");
}

/*
 * Neither sign of a registration is proof of its absence: newer drivers leave no
 * entry, a module that looks the peer symbols up by name holds nothing, and some
 * distributions' own ib_core takes peer clients.
 */
static void loaded_unproven(struct check_ctx *ctx, const char *module)
{
	char remedy[256];

	if (ctx->host.vendor_core)
		snprintf(
			remedy, sizeof(remedy),
			"Prove it by registering cudaMalloc() memory with ibv_reg_mr(); where that fails with "
			"EFAULT, reinstall %s after the vendor's RDMA stack, so that it is built against it.",
			where_from(module));
	else
		snprintf(
			remedy, sizeof(remedy),
			"Use DMA-BUF and unload it (modprobe -r %s), or prove it by registering cudaMalloc() "
			"memory with ibv_reg_mr().",
			module);
	check_add(
		ctx, MRG_CHECK_UNKNOWN, "",
		"The module is loaded; that it registered itself with the RDMA core is not proven.",
		remedy, "loaded; no entry in /sys/kernel/mm/memory_peers, no holder of ib_core");
}

void check_peermem(struct check_ctx *ctx)
{
	const char *module = loaded(ctx);

	if (!module)
		not_loaded(ctx);
	else if (any_is_there(ctx, host_peermem_entries))
		check_add(ctx, MRG_CHECK_OK, "",
			  "The module is loaded and registered with the RDMA core.", "",
			  "/sys/kernel/mm/memory_peers has its entry");
	else if (any_is_there(ctx, host_peermem_holders))
		check_add(ctx, MRG_CHECK_OK, "",
			  "The module is loaded and linked to the RDMA core.", "",
			  "loaded, and holds ib_core (/sys/module/ib_core/holders)");
	else
		loaded_unproven(ctx, module);
}
