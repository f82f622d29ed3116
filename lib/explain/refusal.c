/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "explain/refusal.h"

#define EXPORT_IT "export it with mrg_gpu_export() and register that with mrg_reg_dmabuf()"

__attribute__((format(printf, 3, 4))) static void put(struct explain_refusal *words,
						      const char *remedy, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(words->text, sizeof(words->text), format, args);
	va_end(args);
	snprintf(words->remedy, sizeof(words->remedy), "%s", remedy);
}

static const char *peermem_words(const struct explain_pin_facts *facts)
{
	switch (facts->peermem) {
	case PEERMEM_ABSENT:
		return "no peermem module is loaded";
	case PEERMEM_IDLE:
		return "the peermem module is loaded, but not linked to ib_core";
	case PEERMEM_LINKED:
		break;
	}
	return "peermem is loaded and did not take it";
}

/* gpuDirectRDMACapable is a request of cuMemCreate(), and a fact from then on. */
static void put_unflagged(const struct explain_pin_facts *facts, struct explain_refusal *words)
{
	if (facts->kind == MRG_MEM_CUDA_VMM || facts->kind == MRG_MEM_HIP_VMM)
		put(words,
		    "It cannot be fixed afterwards, and peermem does not help: set allocFlags.gpuDirectRDMACapable at cuMemCreate(), or allocate with cudaMalloc().",
		    "0x%" PRIx64
		    " is %s memory that was allocated without the RDMA flag (gpuDirectRDMACapable).",
		    facts->addr, mrg_mem_kind_name(facts->kind));
	else
		put(words,
		    "It cannot be fixed afterwards: allocate the buffer with cudaMalloc(); PyTorch: do not set backend:cudaMallocAsync.",
		    "0x%" PRIx64 " is %s memory, which its driver calls not RDMA-capable.",
		    facts->addr, mrg_mem_kind_name(facts->kind));
}

static void put_gpu(const struct explain_pin_facts *facts, struct explain_refusal *words)
{
	const char *kind = mrg_mem_kind_name(facts->kind);
	char chunks[48] = "";

	if (facts->chunks > 1)
		snprintf(chunks, sizeof(chunks), " in %zu chunks", facts->chunks);
	if (facts->kind >= MRG_MEM_HIP)
		put(words, "Do not pin it: " EXPORT_IT ".",
		    "0x%" PRIx64
		    " is %s memory%s on a GPU, which the kernel cannot pin by its address.",
		    facts->addr, kind, chunks);
	else
		put(words,
		    facts->peermem == PEERMEM_LINKED && facts->chunks > 1 ?
			    "Peermem takes one allocation at a time: " EXPORT_IT
			    ", which takes them all." :
			    "Do not pin it: " EXPORT_IT ", which needs no peermem.",
		    "0x%" PRIx64
		    " is %s memory%s on a GPU, which the kernel pins only through peermem: %s.",
		    facts->addr, kind, chunks, peermem_words(facts));
}

static void put_driver(const struct explain_pin_facts *facts, struct explain_refusal *words)
{
	if (facts->kind == MRG_MEM_CUDA_MANAGED || facts->kind == MRG_MEM_HIP_MANAGED)
		put(words, "Allocate the buffer with cudaMalloc() or hipMalloc(), " EXPORT_IT ".",
		    "0x%" PRIx64
		    " is %s memory, whose pages move between host and GPU: no device can register it.",
		    facts->addr, mrg_mem_kind_name(facts->kind));
	else if (facts->end)
		put(words, "Register each allocation by itself.",
		    "0x%" PRIx64 " is %s memory that ends at 0x%" PRIx64 ", inside the range.",
		    facts->addr, mrg_mem_kind_name(facts->kind), facts->end);
	else if (facts->unflagged)
		put_unflagged(facts, words);
	else
		put_gpu(facts, words);
}

static void put_device(const struct explain_pin_facts *facts, struct explain_refusal *words)
{
	const char *name = facts->name[0] ? facts->name : "a device without a name";

	if (strncmp(name, "/dev/nvidia", 11))
		put(words,
		    "Register ordinary memory, or have the device's driver export it as a DMA-BUF and use mrg_reg_dmabuf(). GPU memory: mrg_gpu_export().",
		    "0x%" PRIx64
		    " in the range is a mapping of %s: device memory, which the kernel cannot pin.",
		    facts->at, name);
	else if (facts->peermem == PEERMEM_LINKED)
		put(words,
		    "Neither can be fixed afterwards: allocate with cudaMalloc(), or set gpuDirectRDMACapable at cuMemCreate(); then " EXPORT_IT
		    ".",
		    "0x%" PRIx64
		    " in the range is device memory (%s), and %s: it is managed, or VMM memory made without gpuDirectRDMACapable.",
		    facts->at, name, peermem_words(facts));
	else
		put(words, "Do not pin it: " EXPORT_IT ", which needs no peermem.",
		    "0x%" PRIx64
		    " in the range is device memory (%s), which the kernel pins only through peermem: %s.",
		    facts->at, name, peermem_words(facts));
}

/* Memory of cudaMalloc() has no CPU mapping at all. */
static void put_unmapped(const struct explain_pin_facts *facts, struct explain_refusal *words)
{
	if (facts->at != facts->addr)
		put(words, "Register only mapped memory, and deregister before it is unmapped.",
		    "Address 0x%" PRIx64 " in the range is not mapped.", facts->at);
	else
		put(words,
		    "See mrg_gpu_classify() or cudaPointerGetAttributes(). Freed: deregister before it is freed. GPU memory: " EXPORT_IT
		    ".",
		    "Address 0x%" PRIx64
		    " in the range is not mapped: it was freed, or it is a device pointer, which has no CPU mapping (%s).",
		    facts->at, peermem_words(facts));
}

static void put_no_access(const struct explain_pin_facts *facts, struct explain_refusal *words)
{
	put(words,
	    "See mrg_gpu_classify(). Host: mprotect() it. GPU: allocate with gpuDirectRDMACapable (cannot be set afterwards), " EXPORT_IT
	    ".",
	    "Address 0x%" PRIx64
	    " in the range is reserved without access (PROT_NONE): host memory not opened yet, or GPU memory such as CUDA VMM (%s).",
	    facts->at, peermem_words(facts));
}

void explain_refusal_file(const struct explain_pin_facts *facts, struct explain_refusal *words)
{
	put(words,
	    "Use anonymous memory, memfd, tmpfs or huge pages and copy, map the file private, or register it without write access.",
	    "0x%" PRIx64
	    " is a shared writable mapping of %s (%s): from 6.5 on kernels refuse to pin pages that a file system writes back.",
	    facts->file_at, facts->file_name,
	    facts->file_fs[0] ? facts->file_fs : "file system not known");
}

void explain_refusal_pin(const struct explain_pin_facts *facts, struct explain_refusal *words)
{
	if (explain_pin_on_gpu(facts)) {
		put_driver(facts, words);
		return;
	}
	switch (facts->fault) {
	case PIN_UNMAPPED:
		put_unmapped(facts, words);
		break;
	case PIN_NO_ACCESS:
		put_no_access(facts, words);
		break;
	case PIN_READ_ONLY:
		put(words, "Register it without write access, or map it writable.",
		    "Address 0x%" PRIx64
		    " in the range is mapped read-only, and the access asked for writes.",
		    facts->at);
		break;
	case PIN_DEVICE:
		put_device(facts, words);
		break;
	case PIN_UNREADABLE:
		put(words,
		    "GPU memory: " EXPORT_IT
		    ". Other memory must be mapped and open to the access.",
		    "The kernel cannot pin the range, and why is not known: /proc/self/maps cannot be read.");
		break;
	case PIN_NONE:
		if (facts->file_name[0] && facts->file_refused != EXPLAIN_NO)
			explain_refusal_file(facts, words);
		else
			put(words, "GPU memory: " EXPORT_IT ".",
			    "The range is mapped and open to access, but the kernel cannot pin it: device memory, or a file system that forbids it (%s).",
			    peermem_words(facts));
	}
}

/*
 * ib_umem_dmabuf_get() compares with dmabuf->size.  That an fd is shorter than
 * the buffer is what happens to memory of several physical chunks, where the
 * runtime names, and so exports, one of them.
 */
void explain_refusal_size(uint64_t size, uint64_t offset, uint64_t length,
			  struct explain_refusal *words)
{
	put(words,
	    "Export exactly the range that is to be registered, or register chunk by chunk: a virtual-memory buffer has several allocations, and an export by address names one.",
	    "The DMA-BUF holds %" PRIu64 " bytes, and the range ends at %" PRIu64
	    " (offset %" PRIu64 ", length %" PRIu64 ").",
	    size, offset + length, offset, length);
}

void explain_refusal_page_offset(uint64_t page, uint64_t iova, uint64_t offset,
				 struct explain_refusal *words)
{
	uint64_t in_iova = iova & (page - 1), in_dmabuf = offset & (page - 1);

	put(words,
	    (in_iova ^ in_dmabuf) & 0xfff ?
		    "Export from a page boundary and give the exporter's offset, so that address and DMA-BUF run in step." :
		    "Align allocation and export to this host's pages, not to 4 KiB.",
	    "In pages of %" PRIu64 " bytes address 0x%" PRIx64 " stands at byte 0x%" PRIx64
	    ", its offset 0x%" PRIx64 " in the DMA-BUF at byte 0x%" PRIx64 ".",
	    page, iova, in_iova, offset, in_dmabuf);
}

void explain_refusal_support(enum explain_lack lack, const char *device, int answer,
			     struct explain_refusal *words)
{
	static const char other_device[] =
		"Use a device whose driver takes DMA-BUFs (mlx5, efa, irdma, bnxt_re, mana), a newer kernel, or the peermem path.";
	char name[64];

	/* One buffer for all names, of the thread; and EPROTONOSUPPORT is what
	 * ib_uverbs says to a call that it does not know. */
	snprintf(name, sizeof(name), "%s", strerror(-answer));
	switch (lack) {
	case LACK_PROVIDER:
		put(words, "Update rdma-core, or use the device's own provider.",
		    "The kernel takes DMA-BUFs on %s, but the libibverbs provider lacks the call (it answered %s).",
		    device, name);
		break;
	case LACK_KERNEL:
		put(words, other_device,
		    "Kernel or driver of %s do not take DMA-BUFs (they answered %s).", device,
		    name);
		break;
	case LACK_EITHER:
		put(words, other_device,
		    "Provider, driver or kernel of %s do not take DMA-BUFs (they answered %s).",
		    device, name);
	}
}

void explain_refusal_exporter(int code, const char *device, struct explain_refusal *words)
{
	switch (-code) {
	case ENOTSUPP:
		put(words,
		    "Export again for this device: with the default mapping type where the PCIe type was asked for, and the reverse; see mrguard check.",
		    "Error 524: the exporter does not let device %s at this buffer (topology, or a mapping type made for another device).",
		    device);
		break;
	case EFAULT:
		put(words,
		    "Export for this device: without the PCIe mapping flag, or with it for a device behind another root.",
		    "The exporter answered EFAULT: it does not map this memory for this device.");
		break;
	case EINVAL:
		put(words,
		    "Look in dmesg; the buffer may have been revoked, or its export may not cover the range.",
		    "The exporter may have refused it: where size, page offsets and access are right, nothing else answers EINVAL that is known.");
		break;
	case ENOMEM:
		put(words,
		    "Look for BAR1 space (nvidia-smi -q -d MEMORY), IOMMU mode (iommu=pt), and leaked MRs (rdma res show mr).",
		    "The exporter could not map it, the IOMMU has no room, or the device has no keys left.");
		break;
	default:
		put(words, "Look in dmesg; compare with another buffer of the same exporter.",
		    "Device %s takes DMA-BUFs, but exporter or driver refused this one.", device);
	}
}
