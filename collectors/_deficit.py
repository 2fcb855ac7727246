# SPDX-License-Identifier: GPL-2.0-only
"""The artefact's second invariant: no CPU's threads wait much while another CPU's hardly wait."""

#: more seconds of waiting per second than this are too much
TOO_MUCH = 0.2
#: another CPU must have less than this share of that waiting, or else the machine is merely full
HARDLY = 0.1


def shares(before, now, cpus, seconds):
    """Return for each CPU how many seconds its threads waited per second.

    before, now: pid -> (run delay so far in ns, CPU), as in sched_info. The waiting of a new task counts from the next call on.
    """
    waited = dict.fromkeys(cpus, 0)
    for pid, (delay, cpu) in now.items():
        if cpu in waited:
            waited[cpu] += max(0, delay - before.get(pid, (delay, cpu))[0])
    return {cpu: ns / 1e9 / seconds for cpu, ns in waited.items()}


def deficits(share):
    """Return the CPUs whose threads wait too much while the threads of another CPU hardly wait."""
    least = min(share.values())
    return [cpu for cpu, s in share.items() if s > TOO_MUCH and least < HARDLY * s]
