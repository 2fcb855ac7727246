# SPDX-License-Identifier: GPL-2.0-only
"""Load the programs of the online checker from checker.bpf.o, which was compiled when the package was built, with libbpf.

No compiler and no headers are needed, and the checker starts in a fraction of the time. bpf_object__load() puts the running
kernel's offsets into the programs (CO-RE). _bpf.py attaches them, as it does with programs that bcc has compiled.
"""

import ctypes
import fcntl
import hashlib
import os
import struct

import _bpf
import _btf
from _compiler import CannotLoad

FILE = _bpf.HERE / "checker.bpf.o"
LIBRARY = "libbpf.so.1"
IRQ_RECORDS, MOST_WORDS = 2048, 16  # object.h
#: the members of wc_settings
SETTINGS = (
    "NCPU", "RECORDS", "MASK_WORDS", "PIDS", "NONLINE", "TELLS_STATE",
    "WANT_NR_RUNNING", "WANT_AFFINITY", "WANT_THROTTLE", "DETACHED_LOAD",
)  # fmt: skip
PER_CPU = ("cpus", "tails", "watched", "nr_of", "throttled", "asleep_of")
LOG_BYTES = 1 << 20
#: the functions of the load balancer that are probed -> their names before 6.10
OLD_NAMES = {
    "sched_balance_rq": "load_balance",
    "sched_balance_find_src_group": "find_busiest_group",
}
#: program -> the function to which fentry attaches it, and how
FENTRY = {
    "fe_load_balance": ("sched_balance_rq", _bpf.ATTACH_FENTRY),
    "fx_load_balance": ("sched_balance_rq", _bpf.ATTACH_FEXIT),
    "fx_find_busiest_group": ("sched_balance_find_src_group", _bpf.ATTACH_FEXIT),
}


class _OpenOptions(ctypes.Structure):
    """struct bpf_object_open_opts of libbpf 1.0 and later."""

    _fields_ = [
        ("sz", ctypes.c_size_t),
        ("object_name", ctypes.c_char_p),
        ("relaxed_maps", ctypes.c_bool),
        ("pin_root_path", ctypes.c_char_p),
        ("unused", ctypes.c_uint32),
        ("kconfig", ctypes.c_char_p),
        ("btf_custom_path", ctypes.c_char_p),
        ("kernel_log_buf", ctypes.c_void_p),
        ("kernel_log_size", ctypes.c_size_t),
        ("kernel_log_level", ctypes.c_uint32),
    ]


def _library():
    """Return libbpf with the types of the functions that are called."""
    try:
        lib = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError as e:
        raise CannotLoad(
            "there is no %s. Debian/Ubuntu: apt-get install libbpf1; Fedora, Arch: libbpf."
            % LIBRARY
        ) from e
    pointer, number, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
    for name, result, *arguments in (
        ("bpf_object__open_file", pointer, text, pointer),
        ("bpf_object__load", number, pointer),
        ("bpf_object__close", None, pointer),
        ("bpf_object__next_program", pointer, pointer, pointer),
        ("bpf_object__find_map_by_name", pointer, pointer, text),
        ("bpf_object__next_map", pointer, pointer, pointer),
        ("bpf_program__name", text, pointer),
        ("bpf_program__section_name", text, pointer),
        ("bpf_program__fd", number, pointer),
        ("bpf_program__set_autoload", number, pointer, ctypes.c_bool),
        ("bpf_program__set_attach_target", number, pointer, number, text),
        ("bpf_map__name", text, pointer),
        ("bpf_map__fd", number, pointer),
        ("bpf_map__set_max_entries", number, pointer, ctypes.c_uint32),
        ("bpf_map__initial_value", pointer, pointer, pointer),
        ("libbpf_set_print", pointer, pointer),
    ):
        getattr(lib, name).restype, getattr(lib, name).argtypes = result, arguments
    lib.libbpf_set_print(None)  # libbpf stays silent; the kernel's own log says what went wrong
    return lib


def digest():
    """Return the SHA-256 of all sources, which the object also contains."""
    sources = sorted((*FILE.parent.glob("*.c"), *FILE.parent.glob("*.h")))
    return hashlib.sha256(b"".join(s.read_bytes() for s in sources)).hexdigest()


def problem():
    """Return why the object cannot be tried here, or None."""
    if not FILE.exists():
        return "%s was not built (tools/build_bpf.py)" % FILE.name
    if digest().encode() not in FILE.read_bytes():
        return "%s was built from other sources (tools/build_bpf.py)" % FILE.name
    try:
        _library()
    except CannotLoad as e:
        return str(e)
    return None


class Object(_bpf.Programs):
    """The programs with these names, loaded; their maps and their attachments."""

    way, most_words = "object", MOST_WORDS

    def __init__(self, functions, settings):
        why = problem()
        if why:
            raise CannotLoad(why)
        self.begin(typed=True)
        args, cpus = self.btf.tracepoint_args("sched_switch") or [], settings["NCPU"]
        if not self.typed or args[1:2] != [True]:
            raise CannotLoad("this kernel has other arguments of sched_switch than %s" % FILE.name)
        if settings["MASK_WORDS"] > MOST_WORDS:
            raise CannotLoad("%s is for at most %d CPUs" % (FILE.name, 64 * MOST_WORDS))
        self.refused, self.code, self.loaded = {}, {}, {}
        sizes = {
            **dict.fromkeys(PER_CPU, cpus),
            "ring": cpus * settings["RECORDS"],
            "irq_ring": cpus * IRQ_RECORDS,
            "masks": settings["PIDS"] // 1024,
        }
        values = {**settings, "TELLS_STATE": len(args) > 3}
        self._load(functions, sizes, struct.pack("<10I", *(int(values[n]) for n in SETTINGS)))

    def _load(self, functions, sizes, settings):
        lib, log = _library(), ctypes.create_string_buffer(LOG_BYTES)
        options = _OpenOptions(ctypes.sizeof(_OpenOptions))
        options.kernel_log_buf, options.kernel_log_size = ctypes.addressof(log), LOG_BYTES
        held = lib.bpf_object__open_file(str(FILE).encode(), ctypes.byref(options))
        if not held:
            raise CannotLoad("%s: libbpf cannot read it" % FILE)
        try:
            for name, size in sizes.items():
                if (
                    lib.bpf_map__set_max_entries(
                        lib.bpf_object__find_map_by_name(held, name.encode()), size
                    )
                    < 0
                ):
                    raise CannotLoad("%s has no map %s" % (FILE, name))
            constants = lib.bpf_object__find_map_by_name(held, b".rodata")
            room = ctypes.c_size_t()
            ctypes.memmove(
                lib.bpf_map__initial_value(constants, ctypes.byref(room)), settings, len(settings)
            )
            programs = self._chosen(lib, held, functions)
            error = lib.bpf_object__load(held)
            if error < 0:
                tail = log.value.decode(errors="replace").strip().splitlines()[-4:]
                raise CannotLoad(
                    "the kernel refuses the object: %s\n%s" % (os.strerror(-error), "\n".join(tail))
                )
            for name, program in programs.items():
                self.loaded[name] = _kept(lib.bpf_program__fd(program))
            self.fds += self.loaded.values()
            self.maps, at = {}, None
            while at := lib.bpf_object__next_map(held, at):
                self.maps[lib.bpf_map__name(at).decode()] = _kept(lib.bpf_map__fd(at))
        finally:
            lib.bpf_object__close(held)

    def _chosen(self, lib, held, functions):
        """Load only the programs that are wanted and that this kernel can attach; return them by name."""
        chosen, at = {}, None
        while at := lib.bpf_object__next_program(held, at):
            name = lib.bpf_program__name(at).decode()
            kind, _, place = lib.bpf_program__section_name(at).decode().partition("/")
            load = name in functions
            if load and kind == "tp_btf":
                load = bool(self.btf.id_of(_btf.TYPEDEF, "btf_trace_" + place))
            elif load and name in FENTRY:
                symbol = self._fentry(*FENTRY[name], name)
                load = (
                    bool(symbol) and lib.bpf_program__set_attach_target(at, 0, symbol.encode()) == 0
                )
            lib.bpf_program__set_autoload(at, load)
            if load:
                chosen[name] = at
        return chosen

    def _fentry(self, symbol, how, name):
        """Return the function's name here if an empty program may be loaded for it."""
        symbol = next(
            (s for s in (symbol, OLD_NAMES[symbol]) if self.btf.id_of(_btf.FUNC, s)), None
        )
        if symbol is None:
            return None
        self.code[name] = struct.pack("<BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0)  # return 0
        try:
            os.close(super().load(name, _bpf.TYPE_TRACING, how, self.btf.id_of(_btf.FUNC, symbol)))
            self.fds.pop()
        except CannotLoad as e:
            self.refused[name] = str(e)
            return None
        return symbol

    def load(self, func, *_):
        """Return the descriptor of a program, which was loaded with all the others."""
        if func not in self.loaded:
            raise CannotLoad(
                self.refused.get(func, "this kernel lacks what the program %s needs" % func)
            )
        return self.loaded[func]


def _kept(fd):
    """Return a descriptor that stays open when libbpf closes its own."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
