// SPDX-License-Identifier: GPL-2.0-only
/*
 * snapshot.c - the state of every task and runqueue when a capture starts, so that nothing is unknown.
 *
 * It is compiled as one text after ring.c.
 */
/* An iterator over all tasks that writes their state at the start and notes the address of every runqueue. */
struct iter_task {
	u64 meta;
	u64 task;
};

/*
 * Note the runqueues of all CPUs. A container shows only its own tasks, and some CPUs may have none of them. But the control
 * group of any task has a runqueue on every CPU (struct task_group, kernel/sched/sched.h).
 */
SEPARATE int note_runqueues(u64 group)
{
	u64 list = 0;

	if (!HAS(OFF_GROUP_CFS) || !HAS(OFF_CFS_RQ))
		return 0;
	bpf_probe_read_kernel(&list, 8, (void *)(group + OFF_GROUP_CFS));
	for (u32 i = 0; i < NCPU; i++) {
		u32 k = i, cpu = ~0;
		u64 rq = 0, same;
		struct wc_cpu *c = bpf_map_lookup_elem(&cpus, &k);

		if (!c)
			return 0;
		bpf_probe_read_kernel(&rq, 8, (void *)(list + 8 * i));
		bpf_probe_read_kernel(&rq, 8, (void *)(rq + OFF_CFS_RQ));
		bpf_probe_read_kernel(&cpu, 4, (void *)(rq + OFF_RQ_CPU));
		/* without a branch, as the verifier walks every branch of a loop */
		same = (u64)(cpu ^ i) - 1; /* all ones if they are equal */
		hide(same);
		same = (s64)same >> 63;
		c->rq = (rq & same) | (c->rq & ~same);
	}
	return 0;
}

int snapshot(struct iter_task *ctx)
{
	u64 meta = ctx->meta, p = ctx->task, cfs = 0, rq = 0, seq = 0, ptr = 0;
	u32 zero = 0, cpu = 0, on_cpu = 0, nr = 0;
	struct wc_config *conf = bpf_map_lookup_elem(&config, &zero);
	struct wc_cpu *c;
	struct {
		struct wc_task t;
		u64 mask[MOST_WORDS];
	} out = {};

	hide(meta);
	hide(p);
	if (!p || !conf)
		return 0;
	seq = *(volatile u64 *)meta;
	out.t.ts = bpf_ktime_get_ns() - conf->t0;
	bpf_probe_read_kernel(&out.t.pid, 4, (void *)(p + OFF_PID));
	bpf_probe_read_kernel(&out.t.tgid, 4, (void *)(p + OFF_TGID));
	bpf_probe_read_kernel(&cpu, 4, (void *)(p + OFF_TASK_CPU));
	bpf_probe_read_kernel(&out.t.prio, 2, (void *)(p + OFF_PRIO));
	bpf_probe_read_kernel(&out.t.allowed, 4, (void *)(p + OFF_NR_ALLOWED));
	bpf_probe_read_kernel(&out.t.comm, 16, (void *)(p + OFF_COMM));
	bpf_probe_read_kernel(&cfs, 8, (void *)(p + OFF_TASK_CFS));
	rq = cfs - OFF_RQ_CFS;
	if (HAS(OFF_CFS_RQ))
		bpf_probe_read_kernel(&rq, 8, (void *)(cfs + OFF_CFS_RQ));
	bpf_probe_read_kernel(&nr, 4, (void *)(rq + OFF_RQ_NR));
	bpf_probe_read_kernel(&out.t.state, 1, (void *)(p + OFF_ON_RQ));
	bpf_probe_read_kernel(&on_cpu, 4, (void *)(p + OFF_ON_CPU));
	out.t.state = out.t.state ? (on_cpu ? 2 : 1) : 0;
	/* a sleeping task that stays on the queue until its lag is gone does not wait (152e11f6df29, 6.12) */
	if (HAS(OFF_DELAYED)) {
		u8 delayed = 0;

		bpf_probe_read_kernel(&delayed, 1, (void *)(p + OFF_DELAYED));
		if (delayed)
			out.t.state = 0;
	}
	if (WANT_THROTTLE) {
		u8 throttled = 0;

		bpf_probe_read_kernel(&throttled, 1, (void *)(p + OFF_THROTTLED));
		if (throttled) {
			out.t.state = 0;
			remember_throttled(cpu, p, out.t.pid);
		}
	}
	out.t.cpu = cpu;
	if (COUNTS_DELAYED) {
		u32 queued = 0, runnable = 0;

		bpf_probe_read_kernel(&queued, 4, (void *)(rq + OFF_RQ_CFS + OFF_CFS_QUEUED));
		bpf_probe_read_kernel(&runnable, 4, (void *)(rq + OFF_RQ_CFS + OFF_CFS_RUNNABLE));
		nr -= queued - runnable;
	}
	out.t.rq_nr = nr;
	c = bpf_map_lookup_elem(&cpus, &cpu);
	if (c) {
		u32 rq_cpu = ~0;

		bpf_probe_read_kernel(&rq_cpu, 4, (void *)(rq + OFF_RQ_CPU));
		if (rq_cpu == cpu && !c->rq) {
			c->rq = rq;
			if (HAS(OFF_SCHED_GROUP)) {
				bpf_probe_read_kernel(&ptr, 8, (void *)(p + OFF_SCHED_GROUP));
				note_runqueues(ptr);
			}
		}
	}
	bpf_probe_read_kernel(&ptr, 8, (void *)(p + OFF_CPUS_PTR));
	for (int i = 0; i < MASK_WORDS; i++)
		bpf_probe_read_kernel(&out.mask[i], 8, (void *)(ptr + 8 * i));
	hide(seq);
	bpf_seq_write((void *)seq, &out, sizeof(out.t) + 8 * MASK_WORDS);
	return 0;
}
