#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
#
# considered  Record which CPUs load balancing and wakeups looked at, together with every scheduling event.
#             For Linux, uses bcc (as a compiler) and BPF.
#
# USAGE: considered [-h] [-o FILE] [--seconds N] [--functions LIST] [--list] [--ebpf]
#
# What: this is the third kind of data of the paper's section 4.2. The kernel has no tracepoint for it, so functions are
# probed: by fentry where their type information is known and the kernel allows it, else by kprobe.
#
# Assumptions: a function that the compiler inlined cannot be seen (--list shows which functions can). Of
# select_idle_sibling only the previous CPU, the target and the choice are certain. If it chose another CPU, all CPUs that
# share the target's last-level cache are recorded as looked at.
#
# Overhead: balancing runs about a hundred times per second and CPU; every wakeup costs one kprobe.
#
# REQUIRES: CONFIG_KPROBES or BPF trampolines (fentry), Linux 5.8+ with BTF; root.

import argparse
import struct
import sys
from pathlib import Path

import _bpf
import _btf
import _options
import _output
import _privilege
import _probes
import _recorder
import schedtrace

EXAMPLES = """examples:
    considered -o trace.wct --seconds 10   # with all other scheduling events
    considered --list                      # what can be probed on this kernel
    considered -o t.wct --functions find_busiest_group,select_idle_sibling
"""
#: name here -> the kernel's names for it, newest first (renamed in 6.10), and whether its return value is needed
FUNCTIONS = {
    "select_idle_sibling": (("select_idle_sibling",), True),
    "find_busiest_group": (("sched_balance_find_src_group", "find_busiest_group"), False),
    "find_busiest_queue": (("sched_balance_find_src_rq", "find_busiest_queue"), False),
    "find_idlest_group": (("sched_balance_find_dst_group", "find_idlest_group"), False),
    "find_idlest_cpu": (("sched_balance_find_dst_group_cpu", "find_idlest_group_cpu"), False),
    "select_task_rq_fair": (("select_task_rq_fair",), True),
    "load_balance": (("sched_balance_rq", "load_balance"), False),
}
#: select_task_rq_fair is left out, because it encloses select_idle_sibling and shows less
DEFAULT = (
    "select_idle_sibling",
    "find_busiest_group",
    "find_busiest_queue",
    "find_idlest_group",
    "find_idlest_cpu",
)
OFFSETS = {
    "OFF_ENV_SD": ("lb_env", "sd"),
    "OFF_ENV_CPUS": ("lb_env", "cpus"),
    "OFF_ENV_DST_CPU": ("lb_env", "dst_cpu"),
    "OFF_SD_LEVEL": ("sched_domain", "level"),
    "OFF_SD_SPAN": ("sched_domain", "span"),
    "OFF_SG_SPAN": ("sched_group", "cpumask"),
}


def symbols():
    """Return for each function the symbol that this kernel has for it, or None."""
    return _probes.symbols({name: names for name, (names, _) in FUNCTIONS.items()})


def attach(programs, name, symbol, kprobes=False):
    """Attach by fentry if that works, else by kprobe; return which of the two."""
    returns = FUNCTIONS[name][1]
    tid = programs.btf.id_of(_btf.FUNC, symbol)
    if tid and not returns and not kprobes:
        try:
            prog = programs.load("fe_" + name, _bpf.TYPE_TRACING, _bpf.ATTACH_FENTRY, tid)
            programs.fds.append(_bpf.bpf(_bpf.RAW_TRACEPOINT_OPEN, struct.pack("<QI", 0, prog)))
            return "fentry"
        except (_bpf.CannotLoad, OSError) as e:
            refused = e
    else:
        refused = None
    if not _probes.KPROBE_TYPE.exists():
        raise _bpf.CannotLoad(
            "this kernel does not allow it: no kprobes (CONFIG_KPROBES)%s"
            % (", and fentry is refused: %s" % str(refused).splitlines()[0] if refused else "")
        )
    _probes.enable(_probes.open_kprobe(programs, "kp_" + name, symbol, False))
    if returns:
        _probes.enable(_probes.open_kprobe(programs, "kr_" + name, symbol, True))
    return "kprobe"


def llc_masks(cpus):
    """Return for each CPU the mask of the CPUs that share its last-level cache, from sysfs; itself if unknown."""
    masks = []
    for cpu in range(cpus):
        shared = [cpu]
        folder = Path("/sys/devices/system/cpu/cpu%d/cache" % cpu)
        levels = []
        for index in folder.glob("index*"):
            try:
                levels.append(
                    (int((index / "level").read_text()), (index / "shared_cpu_list").read_text())
                )
            except OSError:
                continue
        if levels:
            shared = _bpf.cpu_list(max(levels)[1])
        masks.append(sum(1 << c for c in shared))
    return masks


def main(argv=None):
    """Run the program and return its exit code."""
    p = argparse.ArgumentParser(
        prog="considered",
        description="Record which CPUs balancing and wakeups looked at.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("-o", "--output", help="file to write (default: standard output)")
    _options.add_end(p)
    p.add_argument(
        "--functions",
        default=",".join(DEFAULT),
        help="record these functions, of: %s" % ", ".join(FUNCTIONS),
    )
    _options.add_buffer(p)
    p.add_argument("--kprobes", action="store_true", help="use kprobes even where fentry works")
    p.add_argument("--list", action="store_true", help="list what this kernel has, and exit")
    p.add_argument("--ebpf", action="store_true", help="print the BPF program and exit")
    a = p.parse_args(argv)
    if a.ebpf:
        print(_recorder.text("considered.c"), end="")
        return 0
    wanted = [f for f in a.functions.split(",") if f]
    for f in wanted:
        if f not in FUNCTIONS:
            p.error("--functions: %r is none of %s" % (f, ", ".join(FUNCTIONS)))
    have = symbols()
    if a.list:
        print("kprobes: %s" % ("yes" if _probes.KPROBE_TYPE.exists() else "no (CONFIG_KPROBES)"))
        for name, symbol in have.items():
            print("%-20s %s" % (name, symbol or "not in this kernel, or inlined"))
        return 0
    if (
        not have["select_idle_sibling"]
        and "select_idle_sibling" in wanted
        and "select_task_rq_fair" not in wanted
    ):
        # it calls select_idle_sibling, and shows the previous and the chosen CPU
        wanted.append("select_task_rq_fair")
    stop = _options.stop_signals()
    fd = _output.open_output(a.output) if a.output else 1
    privileges = _privilege.least_privilege(perf_events=True)
    try:
        btf = _btf.kernel()
        found = {macro: btf.offset(*where) for macro, where in OFFSETS.items()}
        found["OFF_SD_SPAN"] = _probes.span_offset(btf)
        defines = ["-D%s=%d" % (macro, off) for macro, off in found.items() if off is not None]
        if len(defines) < len(OFFSETS):
            raise _bpf.CannotLoad(
                "the type information of this kernel lacks lb_env or sched_domain"
            )
        r = _recorder.Recorder(
            _recorder.DEFAULT, a.buffer, sources=("considered.c",), defines=defines
        )
        for cpu, mask in enumerate(llc_masks(r.cpus)):
            raw = mask.to_bytes(8 * r.mask_words, "little")
            r.programs.put("llc", struct.pack("<I", cpu), raw)
        how, problem = {}, None
        for name in wanted:
            if not have[name]:
                print(
                    "considered: %s: not in this kernel, or inlined: not recorded" % name,
                    file=sys.stderr,
                )
                continue
            try:
                how[name] = attach(r.programs, name, have[name], a.kprobes)
            except (_bpf.CannotLoad, OSError) as e:
                problem = e
                print("considered: %s: %s" % (name, e), file=sys.stderr)
        if not how:
            raise _bpf.CannotLoad(
                "nothing can be probed here: %s"
                % (problem or "this kernel has none of the functions")
            )
        r.start()
    except (_bpf.CannotLoad, OSError) as e:
        print("considered: %s" % e, file=sys.stderr)
        return 2
    _privilege.drop_all()
    print("considered: %s" % ", ".join("%s by %s" % x for x in how.items()), file=sys.stderr)
    a.flight, a.progress = None, False
    return schedtrace.record(a, r, schedtrace.Sink(fd), stop, [], privileges)


if __name__ == "__main__":
    sys.exit(main())
