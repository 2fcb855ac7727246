"""Decodes the 16-byte records of the collectors, kind by kind (collectors/wastedcores.h has the fields)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

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
    """Return the name of what a CPU entered on x86-64, or None if its number says nothing."""
    if op == "fault":
        return "page_fault"
    names = {"syscall": SYSCALLS, "softirq": SOFTIRQS, "vector": VECTORS}.get(op, {})
    return names.get(number)


U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

KINDS = {
    "nr_running": 1,
    "switch": 2,
    "wakeup": 3,
    "wakeup_new": 4,
    "migrate": 5,
    "fork": 6,
    "exec": 7,
    "exit": 8,
    "cpu_idle": 9,
    "frequency": 10,
    "load": 11,
    "affinity": 12,
    "rename": 13,
    "name": 14,
    "mask": 15,
    "lost": 16,
    "considered": 17,
    "cpu_online": 18,
    "throttle": 19,
    "unthrottle": 20,
    "kernel_entry": 21,
    "kernel_exit": 22,
    "tick": 23,
}
#: collectors/wastedcores.h: WC_IN_*
INTO = ("syscall", "irq", "softirq", "vector", "fault")
OPS = ("", "wakeup", "fork", "balance")
#: include/linux/sched.h: task_index_to_char
STATES = [*"RSDTtXZPI", "R+"]
TASK_STATES = ("sleeping", "waiting", "running")


@dataclass
class Around:
    """All records of a batch, and the places of those that are decoded: names and masks follow the record they belong to."""

    kind: NDArray[np.int8]
    w1: U64
    at: NDArray[np.intp]

    def masks(self, words: I64) -> list[bytes | None]:
        """Return the sets of CPUs that follow the records; None if one is incomplete.

        ``words`` has the number of words of each set.
        """
        out: list[bytes | None] = []
        for i, n in zip(self.at.tolist(), words.tolist(), strict=True):
            follow = slice(i + 1, i + 1 + n)
            whole = (self.kind[follow] == KINDS["mask"]).sum() == n
            out.append(self.w1[follow].tobytes() if whole else None)
        return out


def bits(w: U64, start: int, length: int) -> I64:
    """Return some bits of each word."""
    return (w >> np.uint64(start) & np.uint64((1 << length) - 1)).astype(np.int64)


def _signed(v: I64, length: int) -> I64:
    return v - ((v >> (length - 1)) << length)


def _nr_running(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {
        "cpu": bits(w, 0, 16).astype(np.int32),
        "nr_running": bits(w, 16, 24).astype(np.int32),
    }


def _switch(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    letter = np.where(x & 1024, len(STATES) - 1, np.minimum(x & 1023, len(STATES) - 1))
    return {
        "cpu": cpu,
        "pid": bits(w, 22, 22).astype(np.int32),
        "prev_pid": bits(w, 0, 22).astype(np.int32),
        "prio": bits(w, 44, 8).astype(np.int16),
        "prev_prio": bits(w, 52, 8).astype(np.int16),
        "prev_state": pl.Series(STATES, dtype=pl.Categorical()).gather(letter),
    }


def _wakeup(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {
        "pid": bits(w, 0, 22).astype(np.int32),
        "by_pid": bits(w, 22, 22).astype(np.int32),
        "cpu": bits(w, 44, 13).astype(np.int32),
        "src_cpu": (bits(w, 57, 7) | (x & 63) << 7).astype(np.int32),
    }


def _migrate(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    ops = pl.Series([None, *OPS[1:]], dtype=pl.Categorical())
    return {
        "pid": bits(w, 0, 22).astype(np.int32),
        "src_cpu": bits(w, 22, 13).astype(np.int32),
        "cpu": bits(w, 35, 13).astype(np.int32),
        "by_pid": (bits(w, 48, 16) | (x & 63) << 16).astype(np.int32),
        "op": ops.gather(np.minimum(x >> 6 & 7, 3)),
    }


def _fork(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {
        "pid": bits(w, 0, 22).astype(np.int32),
        "by_pid": bits(w, 22, 22).astype(np.int32),
        "cpu": cpu,
    }


def _exit(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {
        "pid": bits(w, 0, 22).astype(np.int32),
        "prio": bits(w, 22, 8).astype(np.int16),
        "cpu": cpu,
    }


def _cpu_idle(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {"cpu": bits(w, 0, 16).astype(np.int32), "value": _signed(bits(w, 16, 32), 32)}


def _value(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {"cpu": bits(w, 0, 16).astype(np.int32), "value": bits(w, 16, 47)}


def _affinity(w: U64, x: I64, cpu: Any, around: Around) -> dict[str, Any]:
    masks = around.masks(bits(w, 22, 10))
    return {
        "pid": bits(w, 0, 22).astype(np.int32),
        "cpu": cpu,
        "cpu_mask": pl.Series(masks, dtype=pl.Binary),
    }


def _lost(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {"cpu": cpu, "value": w.astype(np.int64)}


def _throttle(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {
        "pid": bits(w, 0, 22).astype(np.int32),
        "cpu": cpu,
        "value": bits(w, 22, 42) | x << 42,
    }


def _unthrottle(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {"pid": bits(w, 0, 22).astype(np.int32), "cpu": bits(w, 22, 13).astype(np.int32)}


#: collectors/considered.c: enum function
FUNCTIONS = (
    "select_idle_sibling",
    "find_busiest_group",
    "find_busiest_queue",
    "find_idlest_group",
    "find_idlest_cpu",
    "select_task_rq_fair",
    "load_balance",
)


def _considered(w: U64, x: I64, cpu: Any, around: Around) -> dict[str, Any]:
    ops = pl.Series(FUNCTIONS, dtype=pl.Categorical())
    return {
        "cpu": bits(w, 0, 13).astype(np.int32),
        "src_cpu": bits(w, 13, 13).astype(np.int32),
        "pid": bits(w, 26, 22).astype(np.int32),
        "op": ops.gather(np.minimum(bits(w, 48, 8), len(FUNCTIONS) - 1)),
        "value": bits(w, 56, 8),
        "cpu_mask": pl.Series(around.masks(x), dtype=pl.Binary),
    }


def _transition(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    what = pl.Series(INTO, dtype=pl.Categorical())
    return {
        "cpu": cpu,
        "pid": bits(w, 0, 22).astype(np.int32),
        "op": what.gather(np.minimum(bits(w, 22, 5), len(INTO) - 1)),
        "value": _signed(bits(w, 27, 32), 32),
    }


def _tick(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    khz = pl.Series(bits(w, 22, 32))
    return {
        "cpu": cpu,
        "pid": bits(w, 0, 22).astype(np.int32),
        "value": khz.set(khz == 0, None),
    }


def entry_names(op: pl.Series, number: I64) -> pl.Series:
    """Return the names of what CPUs entered, on x86-64."""
    both = pl.DataFrame({"op": op, "number": number})
    known = both.unique()
    names = [name_of(str(o), n) for o, n in known.iter_rows()]
    known = known.with_columns(pl.Series("text", names, dtype=pl.String))
    return both.join(known, on=["op", "number"], how="left", maintain_order="left")["text"]


BUILD = {
    "nr_running": _nr_running,
    "switch": _switch,
    "wakeup": _wakeup,
    "wakeup_new": _wakeup,
    "migrate": _migrate,
    "fork": _fork,
    "exec": _fork,
    "exit": _exit,
    "cpu_idle": _cpu_idle,
    "frequency": _value,
    "load": _value,
    "affinity": _affinity,
    "lost": _lost,
    "considered": _considered,
    "cpu_online": _value,
    "throttle": _throttle,
    "unthrottle": _unthrottle,
    "kernel_entry": _transition,
    "kernel_exit": _transition,
    "tick": _tick,
}
