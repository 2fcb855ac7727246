"""Decodes the 16-byte records of the collectors, kind by kind (their fields are described in collectors/wastedcores.h)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.limits import PID_MAX_LIMIT

_SPAN = 1 << 41  # ns; a batch of records is shorter

I64 = NDArray[np.int64]


class TaskNames:
    """The name of every pid, and the changes of names within the current batch."""

    def __init__(self) -> None:
        self._of = np.full(PID_MAX_LIMIT, -1, np.int32)
        self._ids: dict[str, int] = {}
        self._names: list[str] = []
        self._keys = np.zeros(0, np.int64)
        self._new = np.zeros(0, np.int32)
        self._base = 0
        self._after: dict[int, int] = {}

    def _id(self, name: str) -> int:
        if name not in self._ids:
            self._ids[name] = len(self._names)
            self._names.append(name)
        return self._ids[name]

    def start(self, pid: NDArray[np.uint32], comm: list[str]) -> None:
        """Set the names that tasks have when the recording starts."""
        for p, c in zip(pid.tolist(), comm, strict=True):
            if p < PID_MAX_LIMIT:
                self._of[p] = self._id(c)

    def learn(
        self,
        ts: I64,
        kind: NDArray[np.int8],
        w1: NDArray[np.uint64],
        kinds: dict[str, int],
    ) -> None:
        """Learn the names that the exec, rename and fork records of a batch state."""
        telling = [kinds["exec"], kinds["rename"], kinds["fork"]]
        at = np.flatnonzero(np.isin(kind, telling))
        at = at[np.argsort(ts[at], kind="stable")]
        self._base = int(ts.min()) if ts.size else 0
        now: dict[int, int] = {}
        changes: list[tuple[int, int, int]] = []
        for i in at.tolist():
            pid = int(w1[i]) & (PID_MAX_LIMIT - 1)
            if kind[i] == kinds["fork"]:
                parent = int(w1[i]) >> 22 & (PID_MAX_LIMIT - 1)
                name = now.get(parent, int(self._of[parent]))
            elif i + 2 < kind.size and kind[i + 1] == kind[i + 2] == kinds["name"]:
                raw = w1[i + 1 : i + 3].tobytes().split(b"\0")[0]
                name = self._id(raw[:15].decode(errors="replace"))
            else:
                continue
            now[pid] = name
            changes.append((pid, int(ts[i]), name))
        changes.sort()
        self._keys = np.array([p * _SPAN + t - self._base for p, t, _ in changes], np.int64)
        self._new = np.array([n for _, _, n in changes], np.int32)
        self._after = now

    def fill(self, columns: dict[str, Any], cpu: NDArray[np.int32]) -> None:
        """Add the columns of names; :meth:`learn` must have been called for the same batch."""
        for column, name in (("pid", "comm"), ("prev_pid", "prev_comm"), ("by_pid", "by_comm")):
            if column in columns:
                columns[name] = self._column(columns[column], columns["ts_ns"], cpu)

    def settle(self) -> None:
        """End the batch: its last names are valid from now on."""
        for pid, name in self._after.items():
            self._of[pid] = name
        self._after = {}

    def _column(self, pid: NDArray[np.int32], ts: I64, cpu: NDArray[np.int32]) -> pl.Series:
        ids = self._of[pid].copy()
        if self._keys.size:
            key = pid.astype(np.int64) * _SPAN + (ts - self._base)
            j = np.searchsorted(self._keys, key, "right") - 1
            hit = (j >= 0) & (self._keys[np.maximum(j, 0)] // _SPAN == pid)
            ids[hit] = self._new[j[hit]]
        idle = pid == 0
        if idle.any():
            for c in np.unique(cpu[idle]).tolist():
                ids[idle & (cpu == c)] = self._id(f"swapper/{c}")
        known = pl.Series(self._names or [""], dtype=pl.String).cast(pl.Categorical())
        index = pl.Series(ids)
        return known.gather(index.set(index < 0, None))


# arch/x86/entry/syscalls/syscall_64.tbl, 6.17
_FROM_0 = """
    read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn ioctl
    pread64 pwrite64 readv writev access pipe select sched_yield mremap msync mincore madvise shmget shmat shmctl dup dup2
    pause nanosleep getitimer alarm setitimer getpid sendfile socket connect accept sendto recvfrom sendmsg recvmsg shutdown
    bind listen getsockname getpeername socketpair setsockopt getsockopt clone fork vfork execve exit wait4 kill uname semget
    semop semctl shmdt msgget msgsnd msgrcv msgctl fcntl flock fsync fdatasync truncate ftruncate getdents getcwd chdir fchdir
    rename mkdir rmdir creat link unlink symlink readlink chmod fchmod chown fchown lchown umask gettimeofday getrlimit
    getrusage sysinfo times ptrace getuid syslog getgid setuid setgid geteuid getegid setpgid getppid getpgrp setsid setreuid
    setregid getgroups setgroups setresuid getresuid setresgid getresgid getpgid setfsuid setfsgid getsid capget capset
    rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend sigaltstack utime mknod uselib personality ustat statfs
    fstatfs sysfs getpriority setpriority sched_setparam sched_getparam sched_setscheduler sched_getscheduler
    sched_get_priority_max sched_get_priority_min sched_rr_get_interval mlock munlock mlockall munlockall vhangup modify_ldt
    pivot_root _sysctl prctl arch_prctl adjtimex setrlimit chroot sync acct settimeofday mount umount2 swapon swapoff reboot
    sethostname setdomainname iopl ioperm create_module init_module delete_module get_kernel_syms query_module quotactl
    nfsservctl getpmsg putpmsg afs_syscall tuxcall security gettid readahead setxattr lsetxattr fsetxattr getxattr lgetxattr
    fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr tkill time futex sched_setaffinity
    sched_getaffinity set_thread_area io_setup io_destroy io_getevents io_submit io_cancel get_thread_area lookup_dcookie
    epoll_create epoll_ctl_old epoll_wait_old remap_file_pages getdents64 set_tid_address restart_syscall semtimedop fadvise64
    timer_create timer_settime timer_gettime timer_getoverrun timer_delete clock_settime clock_gettime clock_getres
    clock_nanosleep exit_group epoll_wait epoll_ctl tgkill utimes vserver mbind set_mempolicy get_mempolicy mq_open mq_unlink
    mq_timedsend mq_timedreceive mq_notify mq_getsetattr kexec_load waitid add_key request_key keyctl ioprio_set ioprio_get
    inotify_init inotify_add_watch inotify_rm_watch migrate_pages openat mkdirat mknodat fchownat futimesat newfstatat
    unlinkat renameat linkat symlinkat readlinkat fchmodat faccessat pselect6 ppoll unshare set_robust_list get_robust_list
    splice tee sync_file_range vmsplice move_pages utimensat epoll_pwait signalfd timerfd_create eventfd fallocate
    timerfd_settime timerfd_gettime accept4 signalfd4 eventfd2 epoll_create1 dup3 pipe2 inotify_init1 preadv pwritev
    rt_tgsigqueueinfo perf_event_open recvmmsg fanotify_init fanotify_mark prlimit64 name_to_handle_at open_by_handle_at
    clock_adjtime syncfs sendmmsg setns getcpu process_vm_readv process_vm_writev kcmp finit_module sched_setattr
    sched_getattr renameat2 seccomp getrandom memfd_create kexec_file_load bpf execveat userfaultfd membarrier mlock2
    copy_file_range preadv2 pwritev2 pkey_mprotect pkey_alloc pkey_free statx io_pgetevents rseq
"""
_FROM_424 = """
    pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig fsmount fspick
    pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 process_madvise epoll_pwait2 mount_setattr quotactl_fd
    landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret process_mrelease futex_waitv
    set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue statmount listmount
    lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal setxattrat getxattrat listxattrat removexattrat open_tree_attr
    file_getattr file_setattr
"""
SYSCALLS: dict[int, str] = dict(enumerate(_FROM_0.split())) | dict(
    enumerate(_FROM_424.split(), 424)
)

#: include/linux/interrupt.h
SOFTIRQS = dict(
    enumerate(
        (
            "hi",
            "timer",
            "net_tx",
            "net_rx",
            "block",
            "irq_poll",
            "tasklet",
            "sched",
            "hrtimer",
            "rcu",
        )
    )
)
#: arch/x86/include/asm/irq_vectors.h
VECTORS = {
    0xEC: "timer",
    0xF6: "irq_work",
    0xFB: "call_function_single",
    0xFC: "call_function",
    0xFD: "reschedule",
}


def name_of(op: str, number: int) -> str | None:
    """Return the name of what a CPU entered on x86-64, or None if the number has no name here."""
    if op == "fault":
        return "page_fault"
    names = {"syscall": SYSCALLS, "softirq": SOFTIRQS, "vector": VECTORS}.get(op, {})
    return names.get(number)


U64 = NDArray[np.uint64]

#: name of a kind -> its number in records, which begins at 1
KINDS = {
    name: number
    for number, name in enumerate(
        (
            "nr_running", "switch", "wakeup", "wakeup_new", "migrate", "fork", "exec", "exit", "cpu_idle", "frequency", "load",
            "affinity", "rename", "name", "mask", "lost", "considered", "cpu_online", "throttle", "unthrottle", "kernel_entry",
            "kernel_exit", "tick",
        ),
        1,
    )
}  # fmt: skip
#: collectors/wastedcores.h: WC_IN_*
INTO = ("syscall", "irq", "softirq", "vector", "fault")
OPS = ("", "wakeup", "fork", "balance")
#: include/linux/sched.h: task_index_to_char
STATES = [*"RSDTtXZPI", "R+"]
TASK_STATES = ("sleeping", "waiting", "running")


@dataclass
class Around:
    """All records of a batch, and the places of those to decode; names and masks follow the record to which they belong."""

    kind: NDArray[np.int8]
    w1: U64
    at: NDArray[np.intp]

    def masks(self, words: I64) -> list[bytes | None]:
        """Return the set of CPUs that follows each record; None for a set that is incomplete.

        ``words`` has the number of words of each set.
        """
        out: list[bytes | None] = []
        for i, n in zip(self.at.tolist(), words.tolist(), strict=True):
            follow = slice(i + 1, i + 1 + n)
            whole = (self.kind[follow] == KINDS["mask"]).sum() == n
            out.append(self.w1[follow].tobytes() if whole else None)
        return out


def bits(w: U64, start: int, length: int) -> I64:
    """Return ``length`` bits of each word, from bit ``start`` on."""
    return (w >> np.uint64(start) & np.uint64((1 << length) - 1)).astype(np.int64)


def _signed(v: I64, length: int) -> I64:
    return v - ((v >> (length - 1)) << length)


_PID, _BY = (0, 22), (22, 22)
_WAKEUP = {"pid": _PID, "by_pid": _BY, "cpu": (44, 13), "src_cpu": (57, 7)}
_FORK = {"pid": _PID, "by_pid": _BY}
_VALUE = {"cpu": (0, 16), "value": (16, 47)}
_TRANSITION = {"pid": _PID, "op": (22, 5), "value": (27, 32)}
#: kind -> columns, each with its first bit and its number of bits in the record's second word
PLACES: dict[str, dict[str, tuple[int, int]]] = {
    "nr_running": {"cpu": (0, 16), "nr_running": (16, 24)},
    "switch": {"pid": (22, 22), "prev_pid": (0, 22), "prio": (44, 8), "prev_prio": (52, 8)},
    "wakeup": _WAKEUP,
    "wakeup_new": _WAKEUP,
    "migrate": {"pid": _PID, "src_cpu": (22, 13), "cpu": (35, 13), "by_pid": (48, 16)},
    "fork": _FORK,
    "exec": _FORK,
    "exit": {"pid": _PID, "prio": (22, 8)},
    "cpu_idle": {"cpu": (0, 16), "value": (16, 32)},
    "frequency": _VALUE,
    "load": _VALUE,
    "affinity": {"pid": _PID},
    "lost": {"value": (0, 64)},
    "considered": {"cpu": (0, 13), "src_cpu": (13, 13), "pid": (26, 22), "op": (48, 8), "value": (56, 8)},
    "cpu_online": _VALUE,
    "throttle": {"pid": _PID, "value": (22, 42)},
    "unthrottle": {"pid": _PID, "cpu": (22, 13)},
    "kernel_entry": _TRANSITION,
    "kernel_exit": _TRANSITION,
    "tick": {"pid": _PID, "value": (22, 32)},
}  # fmt: skip
_TYPES = {"prio": np.int16, "prev_prio": np.int16, "value": np.int64, "op": np.int64}
#: collectors/considered.c: enum function
FUNCTIONS = (
    "select_idle_sibling", "find_busiest_group", "find_busiest_queue", "find_idlest_group", "find_idlest_cpu",
    "select_task_rq_fair", "load_balance",
)  # fmt: skip


def columns_of(name: str, w: U64, x: I64, cpu: Any, around: Around) -> dict[str, Any]:
    """Return the columns of records of one kind: those that lie at fixed bits, and those that are computed.

    ``w`` is the second word of each record. ``x`` has the bits of the first word that belong neither to the time nor to the kind.
    """
    out: dict[str, Any] = {"cpu": cpu}
    for column, place in PLACES[name].items():
        value = bits(w, *place).astype(_TYPES.get(column, np.int32))
        if column in (
            "prio",
            "prev_prio",
        ):  # the priority of SCHED_DEADLINE is -1, which is 255 in 8 bits
            value[value == 255] = -1
        out[column] = value
    match name:
        case "switch":
            last = len(STATES) - 1
            letter = np.where(x & 1024, last, np.minimum(x & 1023, last))
            out["prev_state"] = pl.Series(STATES, dtype=pl.Categorical()).gather(letter)
        case "wakeup" | "wakeup_new":
            out["src_cpu"] = (out["src_cpu"] | (x & 63) << 7).astype(np.int32)
        case "migrate":
            out["by_pid"] = (out["by_pid"] | (x & 63) << 16).astype(np.int32)
            out["op"] = _words((None, *OPS[1:]), x >> 6 & 7)
        case "cpu_idle":
            out["value"] = _signed(out["value"], 32)
        case "affinity":
            out["cpu_mask"] = pl.Series(around.masks(bits(w, 22, 10)), dtype=pl.Binary)
        case "considered":
            out["op"] = _words(FUNCTIONS, out["op"])
            out["cpu_mask"] = pl.Series(around.masks(x), dtype=pl.Binary)
        case "throttle":
            out["value"] |= x << 42
        case "kernel_entry" | "kernel_exit":
            out["op"] = _words(INTO, out["op"])
            out["value"] = _signed(out["value"], 32)
        case "tick":
            khz = pl.Series(out["value"])
            out["value"] = khz.set(khz == 0, None)
    return out


def _words(names: Sequence[str | None], numbers: I64) -> pl.Series:
    """Return names by their numbers; the last name stands for all higher numbers, too."""
    return pl.Series(names, dtype=pl.Categorical()).gather(np.minimum(numbers, len(names) - 1))


def entry_names(op: pl.Series, number: I64) -> pl.Series:
    """Return the names of what CPUs entered, on x86-64."""
    both = pl.DataFrame({"op": op, "number": number})
    known = both.unique()
    names = [name_of(str(o), n) for o, n in known.iter_rows()]
    known = known.with_columns(pl.Series("text", names, dtype=pl.String))
    return both.join(known, on=["op", "number"], how="left", maintain_order="left")["text"]
