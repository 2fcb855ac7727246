// SPDX-License-Identifier: GPL-2.0-only
/*
 * unclaimed.c - the paper's Algorithm 2 in the kernel, with the recorder of schedtrace.c around it.
 *
 * Every TICK the timer program runs; every S it looks for an idle CPU and a CPU with a waiting thread that the idle one
 * may run (can_steal). If there is such a pair, it looks again at every tick for M; a violation that held at all of
 * these looks but at most one (a kernel thread's blink on the idle CPU is no repair) is raised. A balancing migration to
 * an idle CPU in the meantime is the scheduler repairing it: the suspicion is dropped.
 *
 * Compiled as one text after schedtrace.c, whose maps and helpers it uses (bcc looks for maps and programs in the main
 * file only, not in included ones).
 */
#define UNKNOWN 0xffffffff

struct wc_check {
	u64 period, persist;	/* S, M; set by the loader */
	u64 event_driven, hold;	/* hold: the loader is busy with the last one */
	u64 next_check;
	u64 suspected_at;	/* 0: nothing suspected */
	u64 misses;		/* looks since then that found nothing */
	u64 last_miss;
	u64 checks, suspected, cleared, confirmed;
	u64 began, confirmed_at;	/* of the last confirmed */
	u32 idle_cpu, busy_cpu, pid, busy_nr;
	s64 n_idle, n_over;	/* event-driven only */
	u64 moves, useless;	/* balancing migrations, and those to a queue at least as loaded */
	u64 looked;		/* find() calls */
	u64 truncated;		/* looks that ran out of steps */
	u64 spare[6];
};

/*
 * The loops' variables live in a map: what is loaded from there is unknown to the verifier, so all paths through an
 * iteration end in the same state and it walks each iteration once. As locals they made it give up with four CPUs.
 */
struct wc_scratch {
	u64 idle[MASK_WORDS];
	u64 head, node;
	u32 cpu, nr, n_idle, n_over;
};

BPF_F_TABLE("array", u32, struct wc_check, check, 1, F_MMAPABLE);
BPF_F_TABLE("percpu_array", u32, struct wc_scratch, scratch, 1, 0);
BPF_F_TABLE("array", u32, u32, nr_of, NCPU, F_MMAPABLE);

#define COPY(dst, addr) bpf_probe_read_kernel(&(dst), sizeof(dst), (void *)(addr))

/*
 * Algorithm 2. First all idle CPUs, then the first waiting thread anywhere that one of them may run. Fair tasks only
 * (rq->cfs_tasks; SCHED_EXT and real-time tasks have balancers of their own). The lists are read without their lock:
 * a look may be wrong, a violation needs many.
 */
static __always_inline int find(struct wc_check *chk)
{
	u32 zero = 0;
	volatile struct wc_scratch *s = (volatile struct wc_scratch *)scratch.lookup(&zero);
	struct wc_cpu *c;
	u64 p, node, head, mask, ptr, rq;
	u32 nr, on_cpu, online;

	if (!s)
		return 0;
	chk->looked++;
	for (int i = 0; i < MASK_WORDS; i++)
		s->idle[i] = 0;
	s->n_idle = 0;
	s->n_over = 0;
	for (u32 i = 0; i < NCPU; i++) {
		u32 k = i;

		c = cpus.lookup(&k);
		if (!c || !c->rq)
			continue;
		online = 1;
#ifdef OFF_RQ_ONLINE
		COPY(online, c->rq + OFF_RQ_ONLINE);
#endif
		nr = 1;
		COPY(nr, c->rq + OFF_RQ_NR);
		if (!online)
			continue;
		if (nr == 0) {
			s->idle[(i >> 6) % MASK_WORDS] |= 1ULL << (i & 63);
			s->n_idle++;
			chk->idle_cpu = i;
		}
		if (nr >= 2)
			s->n_over++;
	}
	if (!s->n_idle || !s->n_over)
		return 0;
	s->cpu = 0;
	s->head = 0;
	s->node = 0;
	/* one loop for CPUs and the tasks on each: a step goes to the next task or to the next CPU */
	for (u32 step = 0; step < NCPU + STEPS; step++) {
		node = s->node;
		head = s->head;
		if (node == head) {
			u32 k = s->cpu;

			if (k >= NCPU)
				return 0;
			s->cpu = k + 1;
			c = cpus.lookup(&k);
			if (!c || !c->rq)
				continue;
			rq = c->rq;
			nr = 0;
			COPY(nr, rq + OFF_RQ_NR);
			if (nr < 2)
				continue;
			s->nr = nr;
			head = rq + OFF_RQ_CFS_TASKS;
			node = head;
			COPY(node, head);
			s->head = head;
			s->node = node;
			continue;
		}
		p = node - OFF_GROUP_NODE;
		ptr = node;
		node = head;
		COPY(node, ptr);
		s->node = node;
		on_cpu = 1;
		COPY(on_cpu, p + OFF_ON_CPU);
		if (on_cpu)
			continue;
#ifdef OFF_DELAYED
		{
			u8 delayed = 0;

			COPY(delayed, p + OFF_DELAYED);
			if (delayed)
				continue;
		}
#endif
		ptr = 0;
		COPY(ptr, p + OFF_CPUS_PTR);
		for (int i = 0; i < MASK_WORDS; i++) {
			mask = 0;
			COPY(mask, ptr + 8 * i);
			if (mask & s->idle[i]) {
				u32 pid = 0;

				COPY(pid, p + OFF_PID);
				chk->pid = pid;
				chk->busy_cpu = s->cpu - 1;
				chk->busy_nr = s->nr;
				return 1;
			}
		}
	}
	chk->truncated++;
	return 0;
}

static __always_inline void suspect(struct wc_check *chk, u64 now)
{
	chk->suspected++;
	chk->misses = 0;
	chk->suspected_at = now;
}

static __always_inline void clear(struct wc_check *chk)
{
	chk->suspected_at = 0;
	chk->cleared++;
}

int on_timer(void *ctx)
{
	u32 zero = 0;
	struct wc_check *chk = check.lookup(&zero);
	u64 now = bpf_ktime_get_ns();

	if (!chk || chk->hold)
		return 0;
	if (!chk->suspected_at) {
		if (chk->event_driven || now < chk->next_check)
			return 0;
		chk->next_check += chk->period;
		if (chk->next_check < now)
			chk->next_check = now + chk->period;
		chk->checks++;
		if (find(chk))
			suspect(chk, now);
		return 0;
	}
	if (chk->event_driven)
		chk->checks++;
	if (!find(chk)) {
		chk->misses++;
		if (chk->misses > 1)
			clear(chk);
		return 0;
	}
	if (now - chk->suspected_at >= chk->persist) {
		chk->began = chk->suspected_at;
		chk->confirmed_at = now;
		chk->suspected_at = 0;
		chk->hold = 1;
		chk->confirmed++;
	}
	return 0;
}

/* Event-driven: count idle and overloaded CPUs at every change; rq->lock is held, so a CPU's changes are in order. */
static __always_inline void checker_nr(struct where *w, u32 cpu, u32 nr)
{
#ifdef EVENT_DRIVEN
	u32 zero = 0;
	struct wc_check *chk = check.lookup(&zero);
	u32 *old = nr_of.lookup(&cpu), was;

	if (!chk || !old)
		return;
	was = *old;
	*old = nr;
	if (was == nr)
		return;
	if (was != UNKNOWN && (was == 0) != (nr == 0))
		__sync_fetch_and_add(&chk->n_idle, nr == 0 ? 1 : -1);
	if (was != UNKNOWN && (was >= 2) != (nr >= 2))
		__sync_fetch_and_add(&chk->n_over, nr >= 2 ? 1 : -1);
	if (was == UNKNOWN) {
		if (nr == 0)
			__sync_fetch_and_add(&chk->n_idle, 1);
		if (nr >= 2)
			__sync_fetch_and_add(&chk->n_over, 1);
	}
	if (chk->n_idle > 0 && chk->n_over > 0 && !chk->suspected_at && !chk->hold)
		suspect(chk, bpf_ktime_get_ns());
#endif
}

/* A task was created or ended: it may have been the violation's end, the next tick will tell. */
static __always_inline void checker_event(struct where *w)
{
}

static __always_inline void checker_migrate(struct where *w, u32 src, u32 dst, u64 op)
{
	u32 zero = 0, nr = 1;
	struct wc_check *chk = check.lookup(&zero);
	struct wc_cpu *from, *to;

	if (!chk || op != WC_OP_BALANCE)
		return;
	chk->moves++;
	to = cpus.lookup(&dst);
	from = cpus.lookup(&src);
	if (!from || !to || !from->rq || !to->rq)
		return;
	COPY(nr, to->rq + OFF_RQ_NR);
	if (nr == 0 && chk->suspected_at)
		clear(chk); /* the scheduler repairs it */
#ifdef OFF_CFS_LOAD
	{
		u64 a = 0, b = 0;

		COPY(a, from->rq + OFF_RQ_CFS + OFF_CFS_LOAD);
		COPY(b, to->rq + OFF_RQ_CFS + OFF_CFS_LOAD);
		if (a <= b)
			chk->useless++;
	}
#endif
}

/* For the run-delay check: what every task has waited so far. */
struct wc_delay {
	u64 run_delay;
	u32 pid, cpu;
};

int delays(struct iter_task *ctx)
{
	u64 meta = ctx->meta, p = ctx->task, seq = 0;
	struct wc_delay out = {};

	hide(meta);
	hide(p);
	if (!p)
		return 0;
	seq = *(volatile u64 *)meta;
#ifdef OFF_RUN_DELAY
	COPY(out.run_delay, p + OFF_RUN_DELAY);
#endif
	COPY(out.pid, p + OFF_PID);
	COPY(out.cpu, p + OFF_TASK_CPU);
	hide(seq);
	bpf_seq_write((void *)seq, &out, sizeof(out));
	return 0;
}
