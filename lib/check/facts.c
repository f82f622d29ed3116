/* SPDX-License-Identifier: MIT */
/* Facts that several checks share. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "check/check.h"
#include "walkfile/walkfile.h"

static int ask_host(void *arg, char *buf, size_t cap)
{
	struct utsname u;

	(void)arg;
	if (uname(&u))
		return -errno;
	snprintf(buf, cap, "arch %s\npage_size %ld", u.machine, sysconf(_SC_PAGESIZE));
	return 0;
}

static int ask_module(void *arg, char *buf, size_t cap)
{
	struct mrg_dev_info info;
	struct mrg_dev *dev;
	int rc;

	(void)arg;
	rc = mrg_dev_open(&dev);
	if (rc)
		return rc;
	rc = mrg_dev_info(dev, &info);
	mrg_dev_close(dev);
	if (!rc)
		snprintf(buf, cap, "version %s\nabi %u\nwalk %s\ncap %s\nuncapped %" PRIu64,
			 info.version, info.abi, info.has_walk ? mrg_walk_name(info.walk) : "none",
			 mrg_cap_name(info.cap), info.cap_uncapped);
	return rc;
}

ssize_t check_module_fact(struct check_ctx *ctx, char *buf, size_t cap)
{
	ssize_t n = host_tree_fact(ctx->tree, "module", buf, cap, ask_module, NULL);

	ctx->lost |= n == -ENOMEM;
	return n;
}

/*
 * Whether the third number of a release counts the fixes of upstream's stable
 * series: so in upstream's own releases, Debian's, Fedora's, Arch's and Amazon's.
 * A frozen number (RHEL, SUSE, Oracle, most vendors) says nothing of what was
 * taken back, and what a stranger's suffix stands for is not known.
 */
static bool release_follows(const char *release)
{
	static const char *const suffixes[] = { "rc", "arch" };
	char suffix[sizeof(((struct check_host *)0)->release)] = "";
	unsigned int third = 0;

	if (sscanf(release, "%*u.%*u.%u%127s", &third, suffix) < 1)
		return false;
	if (!*suffix)
		return true;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++)
		if (!strncmp(suffix + 1, suffixes[i], strlen(suffixes[i])))
			return true;
	return third && (strstr(suffix, ".fc") || strstr(suffix, ".amzn"));
}

/*
 * Debian and Ubuntu put their own number in uname -r (6.1.0-47-amd64,
 * 5.15.0-170-generic) and the upstream one elsewhere ("Debian 6.1.170-3" in
 * /proc/version, the last word of Ubuntu's /proc/version_signature); it is the
 * latter that says which stable fixes are in.
 */
static void read_kernel(struct check_ctx *ctx)
{
	struct check_host *h = &ctx->host;
	unsigned int *v = h->kernel;
	char signature[256];
	const char *at;

	host_tree_read(ctx->tree, "/proc/sys/kernel/osrelease", h->release, sizeof(h->release));
	host_tree_read(ctx->tree, "/proc/version", h->version, sizeof(h->version));
	/* Before the '#' stands the compiler: "gcc-12 (Debian 12.2.0-14)". */
	at = strchr(h->version, '#');
	at = at ? strstr(at, "Debian ") : NULL;
	if (at && sscanf(at + 7, "%u.%u.%u", &v[0], &v[1], &v[2]) == 3) {
		h->kernel_from = "/proc/version";
		h->kernel_follows = true;
	} else if (host_tree_read(ctx->tree, "/proc/version_signature", signature,
				  sizeof(signature)) > 0 &&
		   sscanf(signature, "Ubuntu %*s %u.%u.%u", &v[0], &v[1], &v[2]) == 3) {
		h->kernel_from = "/proc/version_signature";
		h->kernel_follows = true;
	} else {
		sscanf(h->release, "%u.%u.%u", &v[0], &v[1], &v[2]);
		h->kernel_from = "/proc/sys/kernel/osrelease";
		h->kernel_follows = release_follows(h->release);
	}
}

static void read_machine(struct check_ctx *ctx)
{
	struct check_host *h = &ctx->host;
	char buf[128];

	if (host_tree_fact(ctx->tree, "host", buf, sizeof(buf), ask_host, NULL) > 0)
		sscanf(buf, "arch %31s page_size %lu", h->arch, &h->page_size);
}

/*
 * The line of modules.dep for @module, whose path begins where the kernel's own
 * are, or elsewhere.  Both spellings of a name are one.
 */
static bool listed_elsewhere(const char *dep, const char *module, char *where, size_t room)
{
	for (const char *line = dep; line; line = strchr(line, '\n')) {
		const char *end, *name;
		size_t len = strlen(module), i = 0;

		line += *line == '\n';
		end = line + strcspn(line, ":\n");
		for (name = end; name > line && name[-1] != '/';)
			name--;
		while (i < len && (name[i] == module[i] || (name[i] == '-' && module[i] == '_')))
			i++;
		if (i == len && !strncmp(name + i, ".ko", 3) && strncmp(line, "kernel/", 7)) {
			snprintf(where, room, "%.*s (modules.dep)", (int)(end - line), line);
			return true;
		}
	}
	return false;
}

/* Loaded from outside of the kernel's tree, as the running kernel marks it. */
static bool tainted(struct check_ctx *ctx, const char *module)
{
	char path[96], taint[32];

	snprintf(path, sizeof(path), "/sys/module/%.64s/taint", module);
	return host_tree_read(ctx->tree, path, taint, sizeof(taint)) > 0 && strchr(taint, 'O');
}

/*
 * A module of the name below updates/ or extra/ wins over the kernel's own, and
 * so does any folder that modules.dep names.
 */
static bool module_is_foreign(struct check_ctx *ctx, const char *module, char *where, size_t room)
{
	static const char *const places[] = {
		"updates/dkms",
		"extra/mlnx-ofa_kernel/drivers/infiniband/core",
		"updates/drivers/infiniband/core",
		"extra",
		"weak-updates/mlnx-ofa_kernel/drivers/infiniband/core",
		"updates",
	};
	static const char *const ends[] = { "", ".xz", ".zst", ".gz" };
	const char *dep = ctx->host.modules_dep;
	char path[192];

	if (dep && listed_elsewhere(dep, module, where, room))
		return true;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		for (size_t k = 0; k < sizeof(ends) / sizeof(*ends); k++) {
			snprintf(path, sizeof(path), "/lib/modules/%.120s/%s/%s.ko%s",
				 ctx->host.release, places[i], module, ends[k]);
			if (host_tree_exists(ctx->tree, path)) {
				snprintf(where, room, "%s", path);
				return true;
			}
		}
	if (!tainted(ctx, module))
		return false;
	snprintf(where, room, "%s is marked as out of the kernel's tree (/sys/module/%s/taint)",
		 module, module);
	return true;
}

/* Stable releases that carry 486055f5e09d (blocks cross entries), and those
 * that carry 15fe76e23615 (64-bit arithmetic); CVE-2026-53133's record, the
 * stable change logs, and disassembly of Debian's images. */
static const struct {
	unsigned int a, b, crosses, fixed;
} series[] = {
	{ 5, 15, 185, 210 },	{ 6, 1, 141, 176 },	{ 6, 12, 31, 94 },
	{ 6, 15, 0, UINT_MAX }, { 6, 16, 0, UINT_MAX }, { 6, 17, 0, UINT_MAX },
	{ 6, 18, 0, 36 },	{ 6, 19, 0, UINT_MAX }, { 7, 0, 0, 13 },
};

/*
 * The walk by the upstream version.  Where the third number says nothing of a
 * tree's patches, "exact" would be a guess, and "affected" is the careful one.
 */
static enum check_walk walk_by_version(const struct check_host *h)
{
	enum check_walk harmless = h->kernel_follows ? CHECK_WALK_EXACT : CHECK_WALK_UNKNOWN;

	if (h->vendor_core || !h->modules_visible || !h->kernel[0])
		return CHECK_WALK_UNKNOWN;
	for (size_t i = 0; i < sizeof(series) / sizeof(*series); i++) {
		if (h->kernel[0] != series[i].a || h->kernel[1] != series[i].b)
			continue;
		/* Before it crossed entries the same arithmetic did no harm. */
		return h->kernel[2] >= series[i].crosses && h->kernel[2] < series[i].fixed ?
			       CHECK_WALK_AFFECTED :
			       harmless;
	}
	return check_kernel_at_least(h, 7, 1, 1) ? harmless : CHECK_WALK_UNKNOWN;
}

/* The lines "cap" and "uncapped" of what the module says of itself. */
static void read_cap(struct check_host *h, const char *text)
{
	const char *at = strstr(text, "\ncap ");

	for (int cap = MRG_CAP_OFF; at && cap <= MRG_CAP_LOST; cap++) {
		const char *name = mrg_cap_name((enum mrg_cap)cap);

		if (strlen(name) == strcspn(at + 5, "\n") && !strncmp(at + 5, name, strlen(name)))
			h->cap = (enum mrg_cap)cap;
	}
	at = strstr(text, "\nuncapped ");
	if (at)
		h->uncapped = strtoull(at + 10, NULL, 10);
}

static void take_walk(struct check_host *h, const char *walk, const char *from)
{
	if (h->walk_asked || !strcmp(walk, "none") || !strcmp(walk, "unknown"))
		return;
	h->walk_asked = from;
	h->walk = strncmp(walk, "truncating", 10) ? CHECK_WALK_EXACT : CHECK_WALK_AFFECTED;
}

static int ask_file(void *arg, char *buf, size_t cap)
{
	struct check_ctx *ctx = arg;
	const struct walkfile_host host = { .root = "", .release = ctx->host.release };
	struct mrg_walk_answer answer;
	int n;

	walkfile_ask_host(&host, &answer, buf + cap - WALKFILE_TEXT);
	n = snprintf(buf, cap - WALKFILE_TEXT, "name %s\nfile %s\nwhy %s\n",
		     mrg_walk_name(answer.walk), answer.file, answer.why);
	memmove(buf + n, buf + cap - WALKFILE_TEXT, strlen(buf + cap - WALKFILE_TEXT) + 1);
	return 0;
}

#define FILE_FACT (WALKFILE_TEXT + 1024)

static void read_walk_of_file(struct check_ctx *ctx)
{
	struct check_host *h = &ctx->host;
	char *text = malloc(FILE_FACT), walk[32];

	ctx->lost |= !text;
	if (text && host_tree_fact(ctx->tree, "walk", text, FILE_FACT, ask_file, ctx) > 0) {
		if (walkfile_value(text, "name", walk, sizeof(walk)))
			take_walk(h, walk, "by running the code in its file");
		walkfile_value(text, "why", h->walk_why, sizeof(h->walk_why));
	}
	free(text);
}

/* A whole file, "" where it is not readable. */
static char *read_text(struct check_ctx *ctx, const char *path)
{
	char *text = check_buffer(ctx);

	if (text && host_tree_read(ctx->tree, path, text, HOST_TREE_MAX_FILE) < 0)
		*text = 0;
	return text;
}

static void read_walk(struct check_ctx *ctx)
{
	struct check_host *h = &ctx->host;
	char buf[128], walk[32], path[192];

	snprintf(path, sizeof(path), "/lib/modules/%.120s/modules.dep", h->release);
	h->modules_dep = read_text(ctx, path);
	/* mlx_compat comes with MLNX_OFED and DOCA alone. */
	h->vendor_core =
		module_is_foreign(ctx, "ib_core", h->vendor_path, sizeof(h->vendor_path)) ||
		module_is_foreign(ctx, "ib_uverbs", h->vendor_path, sizeof(h->vendor_path)) ||
		host_tree_exists(ctx->tree, "/sys/module/mlx_compat");
	snprintf(path, sizeof(path), "/lib/modules/%s", h->release);
	h->modules_visible = host_tree_exists(ctx->tree, path);
	h->walk = walk_by_version(h);
	if (check_module_fact(ctx, buf, sizeof(buf)) > 0 &&
	    sscanf(buf, "version %*s abi %*u walk %31s", walk) == 1) {
		take_walk(h, walk, "by the mrguard module");
		read_cap(h, buf);
	}
	/* A record takes along what another host may ask again. */
	if (!h->walk_asked || ctx->opts->dump)
		read_walk_of_file(ctx);
	if (h->walk == CHECK_WALK_AFFECTED && h->cap == MRG_CAP_EFFECTIVE)
		h->walk = CHECK_WALK_CAPPED;
}

static unsigned int read_hex(struct check_ctx *ctx, const char *dir, const char *file)
{
	unsigned long long v = 0;
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, file) >= sizeof(path))
		return 0;
	return host_tree_read_u64(ctx->tree, path, &v) ? 0 : (unsigned int)v;
}

static int read_pci(struct check_ctx *ctx, const char *dir, struct check_pci *pci)
{
	char real[PATH_MAX], path[PATH_MAX + 8];
	unsigned int domain, bus, dev, fn;
	const char *name;
	char tail;

	memset(pci, 0, sizeof(*pci));
	if (host_tree_real(ctx->tree, dir, real, sizeof(real)) || strlen(real) >= sizeof(pci->real))
		return -ENOENT;
	name = strrchr(real, '/');
	if (!name || sscanf(name + 1, "%x:%x:%x.%x%c", &domain, &bus, &dev, &fn, &tail) != 4 ||
	    strlen(name + 1) >= sizeof(pci->addr))
		return -ENOENT;
	strcpy(pci->addr, name + 1);
	strcpy(pci->real, real);
	pci->vendor = read_hex(ctx, real, "vendor");
	pci->device = read_hex(ctx, real, "device");
	snprintf(path, sizeof(path), "%s/driver", real);
	if (!host_tree_real(ctx->tree, path, real, sizeof(real))) {
		name = strrchr(real, '/');
		snprintf(pci->driver, sizeof(pci->driver), "%.31s", name ? name + 1 : "");
	}
	return 0;
}

/* The RDMA driver of a device is not always the one that its PCI function is bound to. */
static void read_driver(struct check_ctx *ctx, struct check_rdma *r)
{
	static const struct {
		const char *pci, *rdma;
	} of[] = {
		{ "mlx5_core", "mlx5_ib" },   { "mlx4_core", "mlx4_ib" }, { "bnxt_en", "bnxt_re" },
		{ "ice", "irdma" },	      { "i40e", "irdma" },	  { "idpf", "irdma" },
		{ "ionic", "ionic_rdma" },    { "mana", "mana_ib" },	  { "gdma", "mana_ib" },
		{ "hns3", "hns_roce_hw_v2" }, { "cxgb4", "iw_cxgb4" },	  { "qede", "qedr" },
	};

	for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++)
		if (!strcmp(of[i].pci, r->pci.driver) &&
		    module_is_foreign(ctx, of[i].rdma, r->foreign, sizeof(r->foreign)))
			return;
	if (r->pci.driver[0])
		module_is_foreign(ctx, r->pci.driver, r->foreign, sizeof(r->foreign));
}

static void read_rdma(struct check_ctx *ctx)
{
	struct check_host *h = &ctx->host;
	char **names, path[PATH_MAX];
	ssize_t n = host_tree_list(ctx->tree, "/sys/class/infiniband", &names);

	if (n <= 0)
		return;
	if (n > CHECK_MAX_DEVICES)
		n = CHECK_MAX_DEVICES;
	h->rdma = calloc((size_t)n, sizeof(*h->rdma));
	ctx->lost |= !h->rdma;
	for (ssize_t i = 0; h->rdma && i < n; i++) {
		struct check_rdma *r = &h->rdma[h->rdma_count++];

		snprintf(r->name, sizeof(r->name), "%.63s", names[i]);
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", r->name);
		r->has_pci = !read_pci(ctx, path, &r->pci);
		read_driver(ctx, r);
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/0",
			 r->name);
		host_tree_read(ctx->tree, path, r->netdev, sizeof(r->netdev));
	}
	host_tree_free_names(names, n);
}

static bool is_gpu(struct check_ctx *ctx, const char *dir)
{
	unsigned int class = read_hex(ctx, dir, "class"), vendor;

	if (class >> 8 != 0x0300 && class >> 8 != 0x0302 && class >> 8 != 0x0380 &&
	    class >> 8 != 0x1200)
		return false;
	vendor = read_hex(ctx, dir, "vendor");
	return vendor == VENDOR_NVIDIA || vendor == VENDOR_AMD;
}

static bool is_data_direct(struct check_ctx *ctx, const char *dir)
{
	char path[PATH_MAX + 8], driver[PATH_MAX];

	snprintf(path, sizeof(path), "%s/driver", dir);
	return read_hex(ctx, dir, "vendor") == VENDOR_MELLANOX &&
	       !host_tree_real(ctx->tree, path, driver, sizeof(driver)) &&
	       strstr(driver, "/mlx5_data_direct");
}

/* The functions in /sys/bus/pci that @is chooses.  Return: how many are in @list. */
static size_t read_functions(struct check_ctx *ctx, struct check_pci **list,
			     bool (*is)(struct check_ctx *ctx, const char *dir))
{
	char **names, path[PATH_MAX];
	ssize_t n = host_tree_list(ctx->tree, "/sys/bus/pci/devices", &names);
	size_t count = 0;

	if (n <= 0)
		return 0;
	*list = calloc(CHECK_MAX_DEVICES, sizeof(**list));
	ctx->lost |= !*list;
	for (ssize_t i = 0; *list && i < n && count < CHECK_MAX_DEVICES; i++) {
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", names[i]);
		if (is(ctx, path) && !read_pci(ctx, path, &(*list)[count]))
			count++;
	}
	host_tree_free_names(names, n);
	return count;
}

/*
 * Keyword V3 of a function's vital product data, which a NIC and its data-direct
 * function share.  A list of resources: 0x90 holds keywords of two letters with
 * a length each, 0x78 ends it.
 */
static bool read_v3(struct check_ctx *ctx, const struct check_pci *pci, char *v3, size_t room)
{
	unsigned char vpd[4096];
	char path[PATH_MAX];
	size_t at = 0, size;
	ssize_t len;

	snprintf(path, sizeof(path), "%s/vpd", pci->real);
	len = host_tree_read_raw(ctx->tree, path, vpd, sizeof(vpd));
	for (; len > 0 && at + 3 <= (size_t)len && vpd[at] != 0x78; at += size) {
		if (!(vpd[at] & 0x80)) {
			size = 1 + (vpd[at] & 7);
			continue;
		}
		size = 3 + (vpd[at + 1] | (size_t)vpd[at + 2] << 8);
		if (vpd[at] != 0x90)
			continue;
		for (size_t k = at + 3; k + 3 <= at + size && k + 3 <= (size_t)len &&
					k + 3 + vpd[k + 2] <= (size_t)len;
		     k += 3 + vpd[k + 2])
			if (vpd[k] == 'V' && vpd[k + 1] == '3') {
				snprintf(v3, room, "%.*s", vpd[k + 2], (char *)&vpd[k + 3]);
				return v3[0];
			}
	}
	return false;
}

/* One NIC and one function belong together; of several, those of one V3 do. */
static void pair_data_direct(struct check_ctx *ctx)
{
	struct check_host *h = &ctx->host;
	char own[256], other[256];
	size_t nics = 0;

	for (size_t i = 0; i < h->rdma_count; i++)
		nics += !strcmp(h->rdma[i].pci.driver, "mlx5_core");
	for (size_t i = 0; i < h->rdma_count; i++) {
		struct check_rdma *r = &h->rdma[i];
		bool known;

		if (strcmp(r->pci.driver, "mlx5_core"))
			continue;
		if (nics == 1 && h->data_direct_count == 1)
			r->data_direct = h->data_direct;
		known = !r->data_direct && h->data_direct_count &&
			read_v3(ctx, &r->pci, own, sizeof(own));
		for (size_t k = 0; known && k < h->data_direct_count; k++)
			if (read_v3(ctx, &h->data_direct[k], other, sizeof(other)) &&
			    !strcmp(own, other))
				r->data_direct = &h->data_direct[k];
		r->data_direct_untold = h->data_direct_count && !known && !r->data_direct;
	}
}

/*
 * GPUs whose driver uses the coherent link (its own list, detect-self-hosted.h):
 * GH200, GB200, GB300 and their kin.
 */
static bool is_self_hosted(const struct check_pci *gpu)
{
	unsigned int id = gpu->device;

	return gpu->vendor == VENDOR_NVIDIA &&
	       ((id >= 0x2340 && id <= 0x237f) || (id >= 0x2940 && id <= 0x297f) ||
		(id >= 0x31c0 && id <= 0x31ff) || id == 0x31a1);
}

#define NVIDIA_SOC "jep106:036b:" /* SMCCC SoC id: NVIDIA's JEP106 code */
#define GRACE_SOC NVIDIA_SOC "0241" /* T241 */

/*
 * Which SoC sits below the GPUs decides; a new one of NVIDIA's is coherent as far
 * as one can know, since its GPUs hang on the same link.
 */
static void read_platform(struct check_ctx *ctx)
{
	struct check_host *h = &ctx->host;
	bool nvidia = false, self_hosted = false, arm = !strcmp(h->arch, "aarch64");

	host_tree_read(ctx->tree, "/sys/devices/soc0/soc_id", h->soc, sizeof(h->soc));
	for (size_t i = 0; i < h->gpu_count; i++) {
		nvidia |= h->gpus[i].vendor == VENDOR_NVIDIA;
		self_hosted |= is_self_hosted(&h->gpus[i]);
	}
	h->coherent = nvidia && (!strcmp(h->soc, GRACE_SOC) || (arm && self_hosted));
	h->coherence_untold = nvidia && arm && !h->coherent &&
			      (!h->soc[0] || !strncmp(h->soc, NVIDIA_SOC, strlen(NVIDIA_SOC)));
}

void check_read_facts(struct check_ctx *ctx)
{
	read_kernel(ctx);
	read_machine(ctx);
	read_walk(ctx);
	ctx->host.local_ipv4 = read_text(ctx, "/proc/net/fib_trie");
	ctx->host.local_ipv6 = read_text(ctx, "/proc/net/if_inet6");
	read_rdma(ctx);
	ctx->host.gpu_count = read_functions(ctx, &ctx->host.gpus, is_gpu);
	ctx->host.data_direct_count = read_functions(ctx, &ctx->host.data_direct, is_data_direct);
	pair_data_direct(ctx);
	read_platform(ctx);
}

void check_free_facts(struct check_host *h)
{
	free(h->local_ipv4);
	free(h->local_ipv6);
	free(h->modules_dep);
	free(h->rdma);
	free(h->gpus);
	free(h->data_direct);
}

bool check_kernel_at_least(const struct check_host *h, unsigned int a, unsigned int b,
			   unsigned int c)
{
	if (h->kernel[0] != a)
		return h->kernel[0] > a;
	if (h->kernel[1] != b)
		return h->kernel[1] > b;
	return h->kernel[2] >= c;
}

char check_config(struct check_ctx *ctx, const char *name)
{
	char path[192], want[80], *text = check_buffer(ctx), *at, found = 0;

	if (!text)
		return 0;
	snprintf(path, sizeof(path), "/boot/config-%s", ctx->host.release);
	if (host_tree_read(ctx->tree, path, text, HOST_TREE_MAX_FILE) > 0) {
		snprintf(want, sizeof(want), "CONFIG_%s=", name);
		at = strstr(text, want);
		found = at && (at == text || at[-1] == '\n') ? at[strlen(want)] : 'n';
	}
	free(text);
	return found;
}
