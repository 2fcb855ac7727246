// SPDX-License-Identifier: GPL-2.0-only
/*
 * cpu.c - records what CPUs do apart from switching: idle states, going offline, frequencies and the load of runqueues.
 *
 * It is compiled as one text after ring.c, runqueue.c and schedtrace.c.
 */
int on_cpu_idle(u64 *ctx)
{
	struct where w;
	u64 state = ctx[0] & 0xffffffff, cpu = ctx[1] & 0xffff;

	if (!enter(&w))
		return 0;
	put(&w, KX(WC_CPU_IDLE, 0), cpu | state << 16);
	leave(&w);
	return 0;
}

/*
 * A CPU gets no more tasks from the beginning of the step CPUHP_AP_ACTIVE on its way down (sched_cpu_deactivate,
 * kernel/sched/core.c, 6.18), and gets them again from the end of this step on its way up. If the step down fails, it is
 * undone. st->state has already been changed when the step begins (cpuhp_next_state, kernel/cpu.c).
 */
static __always_inline void cpu_online(u64 cpu, u64 online)
{
	struct where w;

	if (!enter(&w))
		return;
	put(&w, KX(WC_CPU_ONLINE, 0), (cpu & 0xffff) | online << 16);
	leave(&w);
}

int on_cpu_leaves(u64 *ctx)
{
	s32 target = (s32)ctx[1], step = (s32)ctx[2];

	if (step == CPUHP_ACTIVE && target < step)
		cpu_online(ctx[0], 0);
	return 0;
}

int on_cpu_joins(u64 *ctx)
{
	s32 state = (s32)ctx[1], step = (s32)ctx[2], ret = (s32)ctx[3];

	if (step == CPUHP_ACTIVE && (state == step) == (ret == 0))
		cpu_online(ctx[0], 1);
	return 0;
}

int on_frequency(u64 *ctx)
{
	struct where w;
	u64 khz = ctx[0] & 0xffffffff, cpu = ctx[1] & 0xffff;

	if (!enter(&w))
		return 0;
	put(&w, KX(WC_FREQUENCY, 0), cpu | khz << 16);
	leave(&w);
	return 0;
}

/* pelt_cfs_tp fires for the queue of every task group; only the root's load is the runqueue's load */
int on_load(u64 *ctx)
{
	struct where w;
	u64 cfs = ctx[0], rq, load;

	hide(cfs);
	rq = cfs - OFF_RQ_CFS;
	if (HAS(OFF_CFS_RQ) && LOAD(u64, cfs, OFF_CFS_RQ) != rq)
		return 0;
	if (!enter(&w))
		return 0;
	load = LOAD(u64, cfs, OFF_CFS_LOAD);
	if (load != w.c->last_load) {
		u32 cpu = 0;

		w.c->last_load = load;
		bpf_probe_read_kernel(&cpu, 4, (void *)(rq + OFF_RQ_CPU));
		put(&w, KX(WC_LOAD, 0), (u64)(cpu & 0xffff) | load << 16);
	}
	leave(&w);
	return 0;
}
