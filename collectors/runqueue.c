// SPDX-License-Identifier: GPL-2.0-only
/*
 * runqueue.c - changes of a runqueue that have no tracepoint: throttled tasks, and tasks that sleep but stay queued (delayed
   dequeue). *
 * It is compiled as one text after ring.c.
 */
/*
 * A task whose control group has used up its limit of CPU time is taken off its runqueue when it returns to user space
 * (throttle_cfs_rq_work, kernel/sched/fair.c, 6.18), and its next switch reports it as runnable. It comes back without a
 * wakeup (tg_unthrottle_up). There is no tracepoint for either, so the task's flag is looked at: when it leaves a CPU
 * runnable, and, while a CPU has such tasks, when its runqueue grows.
 */
#define THROTTLED 16 /* such tasks per CPU whose return is noticed */

struct wc_throttled {
	u64 task[THROTTLED];
	u32 pid[THROTTLED];
	u32 count, spare;
};
SIZED(throttled, struct wc_throttled, NCPU, 0);

/* Remember a throttled task, so that its return is noticed; the runqueue's lock is held. */
static __always_inline void remember_throttled(u32 cpu, u64 p, u32 pid)
{
	struct wc_throttled *t = bpf_map_lookup_elem(&throttled, &cpu);

	if (!t)
		return;
	for (int i = 0; i < THROTTLED; i++) {
		if (t->pid[i] && t->pid[i] != pid)
			continue;
		t->count += !t->pid[i];
		t->task[i] = p;
		t->pid[i] = pid;
		return;
	}
}

static __always_inline void throttle(struct where *w, u64 p, u32 pid)
{
	u64 id = 0, at = 0;

	if (!LOAD(u8, p, OFF_THROTTLED))
		return;
	bpf_probe_read_kernel(&at, 8, (void *)(p + OFF_SCHED_GROUP));
	bpf_probe_read_kernel(&at, 8, (void *)(at + OFF_GROUP_CGROUP));
	bpf_probe_read_kernel(&at, 8, (void *)(at + OFF_CGROUP_KN));
	bpf_probe_read_kernel(&id, 8, (void *)(at + OFF_KN_ID));
	put(w, KX(WC_THROTTLE, id >> 42 & 0x7ff), PID(pid) | id << 22);
	remember_throttled(w->cpu, p, pid);
}

static __always_inline void unthrottle(struct where *w, u32 cpu)
{
	struct wc_throttled *t = bpf_map_lookup_elem(&throttled, &cpu);

	if (!t || !t->count)
		return;
	for (int i = 0; i < THROTTLED; i++) {
		u8 still = 0;

		if (!t->pid[i])
			continue;
		bpf_probe_read_kernel(&still, 1, (void *)(t->task[i] + OFF_THROTTLED));
		if (still)
			continue;
		put(w, KX(WC_UNTHROTTLE, 0), PID(t->pid[i]) | CPU(cpu) << 22);
		t->pid[i] = 0;
		t->count--;
	}
}

/*
 * nr_running counts tasks that sleep, where delayed dequeue leaves them on the runqueue for a while (152e11f6df29, 6.12).
 * Newer kernels also count the tasks that may run, so that the sleeping ones can be subtracted. Neither the beginning nor
 * the end of such a delay changes nr_running, so the length is recorded at the switch and at the wakeup, too.
 */
#define COUNTS_DELAYED (HAS(OFF_CFS_QUEUED) && HAS(OFF_CFS_RUNNABLE) && HAS(OFF_DELAYED))
SIZED(asleep_of, u32, NCPU, 0); /* by CPU, the number of sleeping tasks on its queue at the last record */

static __always_inline void note_asleep(struct where *w, u32 cpu)
{
	struct wc_cpu *c = bpf_map_lookup_elem(&cpus, &cpu);
	u32 *last = bpf_map_lookup_elem(&asleep_of, &cpu), queued = 0, runnable = 0, nr = 0;

	if (!c || !c->rq || !last)
		return;
	if (OFF_CFS_RUNNABLE == OFF_CFS_QUEUED + 4) { /* one read costs half of two */
		u64 both = 0;

		bpf_probe_read_kernel(&both, 8, (void *)(c->rq + OFF_RQ_CFS + OFF_CFS_QUEUED));
		queued = both;
		runnable = both >> 32;
	} else {
		bpf_probe_read_kernel(&queued, 4, (void *)(c->rq + OFF_RQ_CFS + OFF_CFS_QUEUED));
		bpf_probe_read_kernel(&runnable, 4, (void *)(c->rq + OFF_RQ_CFS + OFF_CFS_RUNNABLE));
	}
	if (queued - runnable == *last)
		return;
	*last = queued - runnable;
	bpf_probe_read_kernel(&nr, 4, (void *)(c->rq + OFF_RQ_NR));
	put(w, KX(WC_NR_RUNNING, 0), cpu | (u64)((nr - *last) & 0xffffff) << 16);
}
