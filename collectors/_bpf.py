# SPDX-License-Identifier: GPL-2.0-only
"""Load and attach what bcc has compiled (_compiler.py) by the bpf system call.

bcc 0.26 (Debian 12) can compile typed raw tracepoints but not load them, and typed ones cost about half of untyped
ones: fields are read by a plain load instead of a helper call. So bcc compiles and makes the maps, and the few system
calls that load, attach and iterate are made here. Kernels before 5.5 get the same programs with untyped tracepoints.
"""

import ctypes
import errno
import mmap
import os
import platform
import struct
from pathlib import Path

import _btf
from _compiler import CannotLoad, compiled

HERE = Path(__file__).resolve().parent
F_MMAPABLE = 1 << 10
_NR_BPF = {"x86_64": 321, "aarch64": 280, "ppc64le": 361, "s390x": 351, "riscv64": 280}
_NR_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "s390x": 331, "riscv64": 241}
MAP_UPDATE, PROG_LOAD, RAW_TRACEPOINT_OPEN, LINK_CREATE, ITER_CREATE = 2, 5, 17, 28, 33
TYPE_KPROBE, TYPE_PERF_EVENT, TYPE_RAW_TRACEPOINT, TYPE_TRACING = 2, 7, 17, 26
ATTACH_TRACE_RAW_TP, ATTACH_FENTRY, ATTACH_FEXIT, ATTACH_ITER = 23, 24, 25, 28
#: bcc.h: the offset of a member that this kernel does not have
ABSENT = 0x7FFFFFFF
_libc = ctypes.CDLL(None, use_errno=True)


def bpf(cmd, attr):
    """Make the bpf system call and return its file descriptor; raises OSError."""
    buf = ctypes.create_string_buffer(attr + bytes(max(0, 128 - len(attr))))
    fd = _libc.syscall(_NR_BPF[platform.machine()], cmd, buf, len(buf))
    if fd < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))
    return fd


# ------------------------------------------------------------------------------------------- programs
def cpu_list(text):
    """'0-2,5' -> [0, 1, 2, 5]."""
    cpus = []
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus += range(int(first), int(last or first) + 1)
    return cpus


def online():
    """Return the CPUs that are online now."""
    return cpu_list(Path("/sys/devices/system/cpu/online").read_text())


def possible():
    """Return one more than the highest CPU number that this kernel can have."""
    return cpu_list(Path("/sys/devices/system/cpu/possible").read_text())[-1] + 1


#: macro -> (structure, the names that its member has had); the first that exists is taken
OFFSETS = {
    "OFF_RQ_NR": ("rq", "nr_running"),
    "OFF_RQ_CPU": ("rq", "cpu"),
    "OFF_RQ_ONLINE": ("rq", "online"),
    "OFF_RQ_CURR": ("rq", "curr", "__curr"),
    "OFF_RQ_CFS": ("rq", "cfs"),
    "OFF_RQ_CFS_TASKS": ("rq", "cfs_tasks"),
    "OFF_CFS_LOAD": ("cfs_rq", "avg.load_avg"),
    "OFF_CFS_RQ": ("cfs_rq", "rq"),
    "OFF_PID": ("task_struct", "pid"),
    "OFF_TGID": ("task_struct", "tgid"),
    "OFF_STATE": ("task_struct", "__state", "state"),  # 2f064a59a11f, 5.14
    "OFF_TASK_CPU": ("task_struct", "thread_info.cpu", "cpu"),  # bcf9033e5449, 5.16
    "OFF_PRIO": ("task_struct", "prio"),
    "OFF_ON_RQ": ("task_struct", "on_rq"),
    "OFF_ON_CPU": ("task_struct", "on_cpu"),
    "OFF_COMM": ("task_struct", "comm"),
    "OFF_THREAD_PID": ("task_struct", "thread_pid"),  # 2c4704756cab, 4.19
    "OFF_PID_LEVEL": ("pid", "level"),
    "OFF_PID_NUMBERS": ("pid", "numbers"),
    "OFF_CPUS_PTR": ("task_struct", "cpus_ptr"),  # 3bd3706251ee, 5.3
    "OFF_NR_ALLOWED": ("task_struct", "nr_cpus_allowed"),
    "OFF_TASK_CFS": ("task_struct", "se.cfs_rq"),
    "OFF_GROUP_NODE": ("task_struct", "se.group_node"),
    "OFF_DELAYED": ("task_struct", "se.sched_delayed"),  # 152e11f6df29, 6.12
    "OFF_TASK_LOAD": ("task_struct", "se.avg.load_avg"),
    "OFF_SE": ("task_struct", "se"),
    "OFF_SE_PARENT": ("sched_entity", "parent"),
    "OFF_SE_CFS": ("sched_entity", "cfs_rq"),
    "OFF_CFS_TG": ("cfs_rq", "tg"),
    "OFF_TG_LOAD": ("task_group", "load_avg"),
    "OFF_TG_SHARES": ("task_group", "shares"),
    "OFF_RUN_DELAY": ("task_struct", "sched_info.run_delay"),
    "OFF_LAST_QUEUED": ("task_struct", "sched_info.last_queued"),
    "OFF_RQ_CLOCK": ("rq", "clock"),
    "OFF_SIGNAL": ("task_struct", "signal"),
    "OFF_THREAD_NODE": ("task_struct", "thread_node"),  # 0c740d0afc3b, 3.14
    "OFF_THREAD_HEAD": ("signal_struct", "thread_head"),
    "OFF_CFS_QUEUED": ("cfs_rq", "h_nr_queued"),
    "OFF_CFS_RUNNABLE": ("cfs_rq", "h_nr_runnable"),
    "OFF_THROTTLED": ("task_struct", "throttled"),  # per task since e1fad12dcb66, 6.18
    "OFF_SCHED_GROUP": ("task_struct", "sched_task_group"),
    "OFF_GROUP_CGROUP": ("task_group", "css.cgroup"),
    "OFF_GROUP_CFS": ("task_group", "cfs_rq"),
    "OFF_CGROUP_KN": ("cgroup", "kn"),
    "OFF_KN_ID": ("kernfs_node", "id"),
    "OFF_TIMER_FUNCTION": ("hrtimer", "function"),
    "OFF_WAKE_ENTRY": ("task_struct", "wake_entry"),
    "OFF_CSD_FLAGS": ("__call_single_data", "node.u_flags"),
}


def has(macro):
    """Return whether this kernel has the member of which a macro is the offset."""
    return _btf.kernel().offset(*OFFSETS[macro]) is not None


def constants(offsets):
    """Return offsets by the names of their macros as options of the compiler."""
    return ["-D%s=%d" % (m, ABSENT if off is None else off) for m, off in offsets.items()]


class Programs:
    """A compiled C program, its maps and its attachments."""

    way = "bcc"

    def __init__(self, sources, defines, mask_words, typed=True):
        self.begin(typed)
        self.most_words = 1 << (mask_words - 1).bit_length()
        flags = ["-I" + str(HERE), "-Wno-unused-function", "-DNCPU=%d" % possible(), *defines]
        flags.append("-DMOST_WORDS=%d" % self.most_words)
        flags += constants({m: self.btf.offset(*where) for m, where in OFFSETS.items()})
        active = self.btf.enum_value("cpuhp_state", "CPUHP_AP_ACTIVE")
        flags.append("-DCPUHP_ACTIVE=%d" % (-1 if active is None else active))
        if self.typed:
            flags.append("-DTYPED=1")
        args = self.btf.tracepoint_args("sched_switch") or [False, True, True]
        flags.append("-DSWITCH_PREV=%d" % args.index(True))
        flags.append("-DTELLS_STATE=%d" % (len(args) > 3))
        flags.append("-DSWITCH_STATE=%d" % (3 if args[1] else 1))
        self.maps, self.code = compiled([HERE / s for s in sources], flags, quiet=True)

    def begin(self, typed):
        """Find out what this kernel has; raises CannotLoad without type information."""
        if not Path(_btf.VMLINUX).exists():
            raise CannotLoad("this kernel has no %s (CONFIG_DEBUG_INFO_BTF)." % _btf.VMLINUX)
        self.fds, self.missing, self.links = [], [], {}
        self.typed = typed and bool(self.btf.id_of(_btf.TYPEDEF, "btf_trace_sched_switch"))
        self.by_csd = all(
            (
                self.btf.id_of(_btf.TYPEDEF, "btf_trace_csd_queue_cpu"),
                self.btf.offset(*OFFSETS["OFF_WAKE_ENTRY"]) is not None,
                self.btf.offset(*OFFSETS["OFF_CSD_FLAGS"]) is not None,
            )
        )

    @property
    def btf(self):
        """The running kernel's types."""
        return _btf.kernel()

    def put(self, name, key, value):
        """Write an element of a map; key and value are bytes."""
        key, value = ctypes.create_string_buffer(key), ctypes.create_string_buffer(value)
        addresses = ctypes.addressof(key), ctypes.addressof(value)
        bpf(MAP_UPDATE, struct.pack("<IIQQQ", self.maps[name], 0, *addresses, 0))

    def mmap(self, name, size, write=False):
        """Map the memory of an mmapable array."""
        size = (size + mmap.PAGESIZE - 1) & ~(mmap.PAGESIZE - 1)
        prot = mmap.PROT_READ | (mmap.PROT_WRITE if write else 0)
        return mmap.mmap(self.maps[name], size, mmap.MAP_SHARED, prot)

    def load(self, func, prog_type, expected_attach=0, btf_id=0):
        """Load one compiled function (BPF_PROG_LOAD) and return its file descriptor."""
        code = self.code.get(func)
        if code is None:
            raise CannotLoad("this kernel lacks what the program %s reads" % func)
        insns, lic = (
            ctypes.create_string_buffer(code, len(code)),
            ctypes.create_string_buffer(b"GPL"),
        )
        log = b""
        for log_size in (0, 1 << 20):
            buf = ctypes.create_string_buffer(max(1, log_size))
            attr = struct.pack(
                "<IIQQIIQII16sIIIIQIIQII",
                prog_type,
                len(code) // 8,
                ctypes.addressof(insns),
                ctypes.addressof(lic),
                1 if log_size else 0,
                log_size,
                ctypes.addressof(buf) if log_size else 0,
                0,
                0,
                func.encode()[:15],
                0,
                expected_attach,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                btf_id,
            )
            # union bpf_attr: ... prog_btf_fd, func_info_rec_size, func_info, func_info_cnt, line_info_rec_size,
            # line_info, line_info_cnt, attach_btf_id
            try:
                fd = bpf(PROG_LOAD, attr)
                self.fds.append(fd)
                return fd
            except OSError as e:
                error, log = e, buf.value
                if e.errno in (errno.EPERM,):
                    break
        tail = "\n".join(log.decode(errors="replace").strip().splitlines()[-4:])
        raise CannotLoad("the kernel refuses the program %s: %s\n%s" % (func, error.strerror, tail))

    def prepare(self, event, func):
        """Load a program for a raw tracepoint, to be attached later; return None if this kernel lacks the tracepoint."""
        name = b""
        if self.typed:
            tid = self.btf.id_of(_btf.TYPEDEF, "btf_trace_" + event)
            if not tid:
                self.missing.append(event)
                return None
            prog = self.load(func, TYPE_TRACING, ATTACH_TRACE_RAW_TP, tid)
        else:
            prog = self.load(func, TYPE_RAW_TRACEPOINT)
            name = event.encode()
        return event, prog, name

    def attach(self, prepared):
        """Attach a loaded program and return the descriptor that keeps it attached, or None; since 5.19 without a privilege."""
        event, prog, name = prepared
        # a typed program names its tracepoint in attach_btf_id, so none is passed here
        buf = ctypes.create_string_buffer(name)
        try:
            fd = bpf(
                RAW_TRACEPOINT_OPEN, struct.pack("<QI", ctypes.addressof(buf) if name else 0, prog)
            )
        except OSError as e:
            if e.errno == errno.ENOENT:
                self.missing.append(event)
                return None
            raise CannotLoad("cannot attach to the tracepoint %s: %s" % (event, e.strerror)) from e
        return fd

    def raw_tracepoint(self, event, func):
        """Load a program and attach it to a raw tracepoint; return False if this kernel lacks the tracepoint."""
        prepared = self.prepare(event, func)
        fd = self.attach(prepared) if prepared else None
        if fd is None:
            return False
        self.fds.append(fd)
        return True

    def iterate(self, target, func):
        """Run an iterator program over all objects of a kind and return what it wrote; None before 5.8.

        The program is loaded once, so later calls need no privilege since 5.19.
        """
        if func not in self.links:
            tid = self.btf.id_of(_btf.FUNC, "bpf_iter_" + target)
            if not tid:
                return None
            prog = self.load(func, TYPE_TRACING, ATTACH_ITER, tid)
            self.links[func] = bpf(LINK_CREATE, struct.pack("<III", prog, 0, ATTACH_ITER))
            self.fds.append(self.links[func])
        try:
            it = bpf(ITER_CREATE, struct.pack("<II", self.links[func], 0))
        except OSError:
            return None
        chunks = []
        try:
            while True:
                chunk = os.read(it, 1 << 20)
                if not chunk:
                    return b"".join(chunks)
                chunks.append(chunk)
        finally:
            os.close(it)

    def timer(self, func, period_ns, cpu):
        """Run a perf-event program every period_ns on one CPU, by a software clock, which works in any virtual machine."""
        return self.software_event(func, 0, period_ns, cpu)  # PERF_COUNT_SW_CPU_CLOCK

    def software_event(self, func, number, period, cpu):
        """Run a perf-event program every so many software events of one CPU."""
        prog = self.load(func, TYPE_PERF_EVENT)
        # struct perf_event_attr: PERF_TYPE_SOFTWARE, size, config, sample_period
        attr = ctypes.create_string_buffer(
            struct.pack("<IIQQ", 1, 128, number, period) + bytes(104), 128
        )
        fd = _libc.syscall(_NR_PERF_EVENT_OPEN[platform.machine()], attr, -1, cpu, -1, 8)
        if fd < 0:
            raise CannotLoad("perf_event_open: %s" % os.strerror(ctypes.get_errno()))
        self.fds.append(fd)
        for request, arg in ((0x40042408, prog), (0x2400, 0)):  # PERF_EVENT_IOC_SET_BPF, _ENABLE
            if _libc.ioctl(fd, ctypes.c_ulong(request), ctypes.c_ulong(arg)) < 0:
                raise CannotLoad("perf event: %s" % os.strerror(ctypes.get_errno()))
        return fd

    def detach(self):
        """Close every program and attachment; the maps stay readable."""
        while self.fds:
            os.close(self.fds.pop())
