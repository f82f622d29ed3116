#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch's expandable segments: classify, export, share, and what goes wrong.

torch_segments.py LIBRARY CHECKER: LIBRARY is libmrguard with lib/gpu and
lib/share, CHECKER a program that imports a token and compares every word.
Speaks TAP, with a figure after a bar character.

torch_segments.py --layout: the structures below as C assertions, with which
the headers are compared.
"""
import ctypes
import os
import subprocess
import sys
import tempfile

GIB = 1 << 30
GOLDEN = 0x9e3779b97f4a7c15
VMM = 5         # MRG_MEM_CUDA_VMM
rows = 0


class Mem(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("device", ctypes.c_int32),
                ("source", ctypes.c_char_p), ("rdma", ctypes.c_int),
                ("several_devices", ctypes.c_bool), ("base", ctypes.c_uint64),
                ("size", ctypes.c_uint64), ("page_size", ctypes.c_uint64),
                ("hole", ctypes.c_uint64), ("id", ctypes.c_uint64),
                ("handle_types", ctypes.c_uint32), ("uuid", ctypes.c_uint8 * 16),
                ("pci", ctypes.c_char * 16), ("chunks", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("reserved", ctypes.c_uint64 * 4)]


class Dmabuf(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("reserved0", ctypes.c_uint32),
                ("base", ctypes.c_uint64), ("offset", ctypes.c_uint64),
                ("reserved", ctypes.c_uint64 * 2)]


class Piece(ctypes.Structure):
    _fields_ = [("buf", Dmabuf), ("addr", ctypes.c_uint64), ("length", ctypes.c_uint64),
                ("size", ctypes.c_uint64), ("reserved", ctypes.c_uint64 * 2)]


class Export(ctypes.Structure):
    _fields_ = [("mem", Mem), ("pieces", ctypes.POINTER(Piece)),
                ("count", ctypes.c_size_t), ("pcie", ctypes.c_bool),
                ("source", ctypes.c_char_p), ("reserved", ctypes.c_uint64 * 4)]


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("piece", ctypes.c_int),
                ("stage", ctypes.c_char * 32), ("cause", ctypes.c_char * 256),
                ("remedy", ctypes.c_char * 256), ("reserved", ctypes.c_uint64 * 2)]


class ShareOpts(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("timeout_ms", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("gpu", ctypes.c_void_p),
                ("dir", ctypes.c_char_p)]


def row(passed, bar, figure):
    global rows
    rows += 1
    print(f"{'ok' if passed else 'not ok'} {rows} - {bar} | {figure}", flush=True)


def u64(value):
    return ctypes.c_uint64(value)


class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.mrg_range_token.restype = ctypes.c_size_t
        self.gpu = ctypes.c_void_p()
        self.share = ctypes.c_void_p()
        assert self.lib.mrg_gpu_open(ctypes.byref(self.gpu), None) == 0
        opts = ShareOpts(ctypes.sizeof(ShareOpts), 20000, 0, self.gpu, None)
        assert self.lib.mrg_share_open(ctypes.byref(self.share), ctypes.byref(opts)) == 0

    def error(self, which):
        error = Error()
        read = self.lib.mrg_gpu_last_error if which == "gpu" else self.lib.mrg_share_last_error
        read(self.gpu if which == "gpu" else self.share, ctypes.byref(error))
        return error.cause.decode(), error.remedy.decode()

    def classify(self, addr, size):
        mem = Mem()
        ret = self.lib.mrg_gpu_classify(self.gpu, u64(addr), u64(size), ctypes.byref(mem))
        return ret, mem

    def export(self, addr, size):
        out = Export()
        ret = self.lib.mrg_gpu_export(self.gpu, u64(addr), u64(size), None, ctypes.byref(out))
        return ret, out

    def publish(self, addr, size):
        published = ctypes.c_void_p()
        ret = self.lib.mrg_share_publish(self.share, u64(addr), u64(size),
                                         ctypes.byref(published))
        return ret, published

    def token(self, published):
        data = ctypes.c_void_p()
        length = self.lib.mrg_range_token(published, ctypes.byref(data))
        return ctypes.string_at(data, length)


def tensor(torch, size):
    """Words that the checker can work out again."""
    words = torch.arange(size // 8, dtype=torch.int64, device="cuda")
    words.mul_(GOLDEN - (1 << 64))
    torch.cuda.synchronize()
    return words


def classify(m, t, name, size):
    ret, mem = m.classify(t.data_ptr(), size)
    row(ret == 0 and mem.kind == VMM and mem.hole == 0 and mem.rdma == 2,
        f"classify PyTorch segments of {name}",
        f"kind {mem.kind}, {mem.count} chunks, {mem.size} bytes mapped, "
        f"handle types {mem.handle_types}, from {mem.source.decode()}")
    m.lib.mrg_mem_release(ctypes.byref(mem))


def export(m, t, name, size):
    ret, out = m.export(t.data_ptr(), size)
    if ret:
        row(False, f"export PyTorch segments of {name}", m.error("gpu")[0])
        return
    piece = out.pieces[0]
    end = os.lseek(piece.buf.fd, 0, os.SEEK_END)
    row(out.count == 1 and end >= t.data_ptr() - piece.buf.base + size,
        f"export PyTorch segments of {name}",
        f"{out.count} fd of {end} bytes, tensor at {t.data_ptr() - piece.buf.base} in it")
    m.lib.mrg_gpu_export_release(m.gpu, ctypes.byref(out))


def share(m, checker, t, name, size):
    ret, published = m.publish(t.data_ptr(), size)
    if ret:
        row(False, f"share PyTorch segments of {name}", m.error("share")[0])
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(m.token(published))
        file.flush()
        done = subprocess.run([checker, "check", file.name, str(size // 8)],
                              capture_output=True, text=True, timeout=120)
    row(done.returncode == 0, f"share PyTorch segments of {name}",
        (done.stdout + done.stderr).strip().replace("\n", "; "))
    m.lib.mrg_share_unpublish(published)


def sizes(m, torch, checker):
    for name, size in (("1 GiB", GIB), ("4 GiB", 4 * GIB), ("1916853120 bytes", 1916853120)):
        t = tensor(torch, size)
        classify(m, t, name, size)
        export(m, t, name, size)
        share(m, checker, t, name, size)
        del t
        torch.cuda.empty_cache()


def hole(m, torch):
    """Three neighbours, of which the middle one is given back."""
    parts = [torch.empty(40 << 20, dtype=torch.uint8, device="cuda") for _ in range(3)]
    start, end = parts[0].data_ptr(), parts[2].data_ptr() + (40 << 20)
    parts[1] = None
    torch.cuda.empty_cache()
    ret, _ = m.export(start, end - start)
    row(ret == -14, "error: hole in PyTorch's segment after empty_cache()",
        f"{ret}: {m.error('gpu')[0]}")


def unshareable(m, torch):
    t = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    ret, _ = m.publish(t.data_ptr(), 64 << 20)
    cause, remedy = m.error("share")
    row(ret == -1 and "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC" in remedy,
        "error: PyTorch segments without handle type name the setting", f"{ret}: {cause}")
    ret, out = m.export(t.data_ptr(), 64 << 20)
    row(ret == 0, "they still export a DMA-BUF",
        f"{out.count} fd" if ret == 0 else m.error("gpu")[0])


def layout():
    structures = {"mrg_mem": Mem, "mrg_dmabuf": Dmabuf, "mrg_export_piece": Piece,
                  "mrg_export": Export, "mrg_error": Error, "mrg_share_opts": ShareOpts}
    for name, structure in structures.items():
        for field, *_ in structure._fields_:
            print(f"_Static_assert(offsetof(struct {name}, {field}) == "
                  f"{getattr(structure, field).offset}, \"{name}.{field}\");")
        print(f"_Static_assert(sizeof(struct {name}) == {ctypes.sizeof(structure)}, \"{name}\");")


def main():
    if sys.argv[1:] == ["--layout"]:
        layout()
        return
    library, checker = sys.argv[1:3]
    try:
        import torch
    except ImportError:
        print("1..0 # SKIP PyTorch is not installed")
        return
    if not torch.cuda.is_available():
        print("1..0 # SKIP PyTorch sees no GPU")
        return
    print(f"# PyTorch {torch.__version__}")
    torch.zeros(1, device="cuda")
    m = Library(library)
    if os.environ.get("TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC") == "0":
        unshareable(m, torch)
    else:
        sizes(m, torch, checker)
        hole(m, torch)
    print(f"1..{rows}", flush=True)
    os._exit(0)


main()
