// SPDX-License-Identifier: GPL-2.0-only
/*
 * unclaimed.c - the paper's online sanity checker (section 4.1, Algorithm 2) in the kernel.
 *
 * The timer program runs every tick. Every S it looks for an idle CPU and a CPU with a waiting thread that the idle one
 * may run (can_steal). If there is such a pair, it looks again at every tick for M. A violation is raised if it held at
 * all of these 21 looks except at most two: a task that runs briefly on the idle CPU does not repair it.
 *
 * During M it also watches the events that the paper watches, "because it is these events that can help the system to
 * recover":
 *
 *   migration  balancing gives an idle CPU a thread    -> that CPU is filled
 *              and takes the last waiting one of a CPU -> that CPU is relieved
 *   creation   a new thread is put on an idle CPU      -> filled
 *   exit       the last but one thread of a CPU ends   -> relieved
 *
 * Until the suspicion ends, a CPU that was filled no longer counts as idle, and one that was relieved no longer counts as
 * overloaded; neither does one on which nobody waited at three of the looks. The violation of the other CPUs continues,
 * because balancing inside one node does not repair another node. When the looks find no pair among the remaining CPUs, the
 * suspicion is dropped, and the next first look is after M instead of S. Time between two looks that are further apart than
 * four ticks does not count for M.
 *
 * Chronic waste is many short violations that add up: of ten slices of length M in a row, at least five waste 1 % or more
 * of the CPU time used in them. The timer therefore looks at every tick and notes for each slice whether a look found a
 * pair. Five of ten such slices prove nothing, as looks are samples, but they are the reason to record the last ten
 * slices; the package measures the waste in the recording and decides.
 *
 * This file is compiled as one text after look.c and tally.c. The programs that watch are separate from
 * those that record, so that the checker works while nothing is recorded.
 */
#define UNKNOWN 0xffffffff

static __always_inline void suspect(struct wc_check *chk, u64 now)
{
	chk->suspected++;
	chk->misses = 0;
	chk->own_ns = 0;
	chk->dropped = 0;
	chk->last_look = now;
	chk->late = 0;
	chk->suspected_at = now;
}

static __always_inline void clear(struct wc_check *chk, u64 now)
{
	chk->suspected_at = 0;
	chk->cleared_at = now;
	chk->cleared++;
	/* brief work on the idle CPU may have hidden a violation that goes on */
	if (chk->next_check > now + chk->persist)
		chk->next_check = now + chk->persist;
}

/* Is it time for the first look of a suspicion? */
static __always_inline int due(struct wc_check *chk, u64 now)
{
	/* a violation that no event announced, such as one that continues after it was raised */
	if (chk->event_driven && chk->n_idle > 0 && chk->n_over > 0)
		return 1;
	if (now < chk->next_check)
		return 0;
	chk->next_check += chk->period;
	if (chk->next_check < now)
		chk->next_check = now + chk->period;
	return 1;
}

#define SLICES 10

static __always_inline void note_slice(struct wc_check *chk, u64 now, int found)
{
	u64 slice = now / chk->persist, passed = slice - chk->slice;

	chk->slice = slice;
	chk->wasted = passed < SLICES ? (chk->wasted << passed) & ((1 << SLICES) - 1) : 0;
	chk->wasted |= found == FOUND;
}

static __always_inline int look(u64 now)
{
	u32 zero = 0, watching;
	struct wc_check *chk = bpf_map_lookup_elem(&check, &zero);
	u64 since;
	int found, is_due;

	if (!chk || chk->hold)
		return 0;
	watching = chk->suspected_at != 0;
	is_due = !watching && due(chk, now);
	if (!watching && !is_due && !chk->every_tick)
		return 0;
	if (is_due || (watching && chk->event_driven))
		chk->checks++;
	since = now - chk->last_look;
	if (watching && since > chk->late)
		chk->late = since;
	chk->last_look = now;
	found = find(watching ? (u32)chk->suspected : 0);
	note_slice(chk, now, found);
	if (!watching) {
		if (is_due && found == FOUND)
			suspect(chk, now);
		return 0;
	}
	if (found == ONLY_OWN || since > chk->gap)
		chk->own_ns += since;
	if (found == NONE) {
		if (++chk->misses > MISSES) {
			chk->recovered += chk->dropped != 0;
			clear(chk, now);
		}
		return 0;
	}
	if (found == FOUND && since <= chk->gap && now - chk->suspected_at >= chk->persist + chk->own_ns) {
		chk->began = chk->suspected_at;
		chk->confirmed_at = now;
		chk->suspected_at = 0;
		chk->hold = 1;
		chk->confirmed++;
	}
	return 0;
}

int on_timer(void *ctx)
{
	u64 now = bpf_ktime_get_ns();

	look(now);
	spent(now);
	return 0;
}

static __always_inline u32 nr_running(u32 cpu)
{
	struct wc_cpu *c = bpf_map_lookup_elem(&cpus, &cpu);
	u32 nr = UNKNOWN;

	if (c && c->rq)
		COPY(nr, c->rq + OFF_RQ_NR);
	return nr;
}

static __always_inline void fill(struct wc_check *chk, u32 cpu, u64 *by)
{
	struct wc_watched *seen = bpf_map_lookup_elem(&watched, &cpu);

	if (!seen || seen->filled == (u32)chk->suspected)
		return;
	seen->filled = (u32)chk->suspected;
	__sync_fetch_and_add(&chk->dropped, 1);
	__sync_fetch_and_add(by, 1);
}

static __always_inline void relieve(struct wc_check *chk, u32 cpu, u64 *by)
{
	struct wc_watched *seen = bpf_map_lookup_elem(&watched, &cpu);

	if (!seen || seen->relieved == (u32)chk->suspected)
		return;
	seen->relieved = (u32)chk->suspected;
	__sync_fetch_and_add(&chk->dropped, 1);
	__sync_fetch_and_add(by, 1);
}

/*
 * Return the load that left the root queue when p was dequeued, so that the two queues can be compared as they were
 * before. It is 0 before 6.1; since e1f078f50478 dequeueing detaches the load of the task. Inside groups a task counts for
 * its share of the group's weight (calc_group_shares, kernel/sched/fair.c, without the corrections for groups that are
 * nearly asleep).
 */
static __always_inline u64 left_with(u64 p)
{
	u64 load, se = p + OFF_SE, cfs, parent, group, all, shares;

	if (!DETACHED_LOAD || !HAS(OFF_TASK_LOAD))
		return 0;
	load = LOAD(u64, p, OFF_TASK_LOAD);
	if (!HAS(OFF_SE_PARENT) || !HAS(OFF_CFS_TG) || !HAS(OFF_TG_LOAD))
		return load;
#pragma unroll
	for (int depth = 0; depth < 5; depth++) {
		parent = cfs = group = all = shares = 0;
		COPY(parent, se + OFF_SE_PARENT);
		if (!parent)
			break;
		COPY(cfs, se + OFF_SE_CFS);
		COPY(group, cfs + OFF_CFS_TG);
		COPY(all, group + OFF_TG_LOAD);
		COPY(shares, group + OFF_TG_SHARES);
		if (all > load && all)
			load = (shares >> 10) * load / all;
		else
			load = shares >> 10;
		se = parent;
	}
	return load;
}

/* sched_migrate_task(p, dest_cpu): p has left the source queue and is not yet on the other (detach_task, move_queued_task). */
int watch_migrate(u64 *ctx)
{
	u32 zero = 0, dst = (u32)ctx[1], src;
	struct wc_check *chk = bpf_map_lookup_elem(&check, &zero);
	u64 p = ctx[0];

	hide(p);
	if (!chk || why_moved(p) != WC_OP_BALANCE || is_own(chk, p))
		return 0;
	src = task_cpu(p);
	__sync_fetch_and_add(&chk->moves, 1);
	{
		struct wc_watched *to = bpf_map_lookup_elem(&watched, &dst);

		if (to)
			to->pulled++;
	}
	if (chk->suspected_at) {
		if (nr_running(dst) == 0)
			fill(chk, dst, &chk->by_move);
		if (nr_running(src) == 1)
			relieve(chk, src, &chk->by_move);
	}
	if (HAS(OFF_CFS_LOAD)) {
		struct wc_cpu *from = bpf_map_lookup_elem(&cpus, &src), *to = bpf_map_lookup_elem(&cpus, &dst);
		u64 a = 0, b = 0;

		if (!from || !to || !from->rq || !to->rq)
			return 0;
		COPY(a, from->rq + OFF_RQ_CFS + OFF_CFS_LOAD);
		COPY(b, to->rq + OFF_RQ_CFS + OFF_CFS_LOAD);
		a += left_with(p);
		if (a <= b)
			__sync_fetch_and_add(&chk->useless, 1);
	}
	return 0;
}

/* sched_wakeup_new(p): p is on its queue. */
int watch_new(u64 *ctx)
{
	u32 zero = 0, cpu;
	struct wc_check *chk = bpf_map_lookup_elem(&check, &zero);
	u64 p = ctx[0];

	hide(p);
	if (!chk || !chk->suspected_at || is_own(chk, p))
		return 0;
	cpu = task_cpu(p);
	if (nr_running(cpu) == 1)
		fill(chk, cpu, &chk->by_fork);
	return 0;
}

/* sched_process_exit(p): p still counts on the queue of the CPU it runs on. */
int watch_exit(u64 *ctx)
{
	u32 zero = 0, cpu = bpf_get_smp_processor_id();
	struct wc_check *chk = bpf_map_lookup_elem(&check, &zero);

	if (!chk || !chk->suspected_at)
		return 0;
	if (nr_running(cpu) == 2)
		relieve(chk, cpu, &chk->by_exit);
	return 0;
}

/* Event-driven mode counts idle and overloaded CPUs at every change; rq->lock is held, so a CPU's changes are in order. */
int watch_nr(u64 *ctx)
{
	u64 rq = ctx[0];
	u32 zero = 0, cpu, nr, was, *old;
	struct wc_check *chk = bpf_map_lookup_elem(&check, &zero);

	hide(rq);
	cpu = LOAD(u32, rq, OFF_RQ_CPU);
	nr = LOAD(u32, rq, OFF_RQ_NR);
	old = bpf_map_lookup_elem(&nr_of, &cpu);
	if (!chk || !old)
		return 0;
	was = *old;
	*old = nr;
	if (was == nr)
		return 0;
	if ((was == 0) != (nr == 0))
		__sync_fetch_and_add(&chk->n_idle, nr == 0 ? 1 : -1);
	if ((was >= 2 && was != UNKNOWN) != (nr >= 2))
		__sync_fetch_and_add(&chk->n_over, nr >= 2 ? 1 : -1);
	if (chk->n_idle > 0 && chk->n_over > 0 && !chk->suspected_at && !chk->hold)
		suspect(chk, bpf_ktime_get_ns());
	return 0;
}

/* Note the leaders of this program's own processes; an iterator over all tasks. */
int own_leaders(struct iter_task *ctx)
{
	u64 meta = ctx->meta, p = ctx->task;
	u32 zero = 0, pid = 0, tgid = 0, level = 0, nr;
	u64 id = 0;
	struct wc_check *chk = bpf_map_lookup_elem(&check, &zero);

	hide(meta);
	hide(p);
	if (!p || !chk)
		return 0;
	COPY(pid, p + OFF_PID);
	COPY(tgid, p + OFF_TGID);
	if (pid != tgid)
		return 0;
	nr = pid;
	if (HAS(OFF_THREAD_PID)) { /* in a container, the loader knows other numbers */
		COPY(id, bpf_get_current_task() + OFF_THREAD_PID);
		COPY(level, id + OFF_PID_LEVEL);
		COPY(id, p + OFF_THREAD_PID);
		COPY(nr, id + OFF_PID_NUMBERS + 16 * level); /* sizeof(struct upid) */
	}
	for (int i = 0; i < OWN; i++)
		if (nr == chk->told[i]) {
			chk->own[i] = pid;
			chk->own_leader[i] = p;
		}
	return 0;
}

/* For the run-delay check: how long every task has waited so far. */
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
	if (HAS(OFF_RUN_DELAY))
		COPY(out.run_delay, p + OFF_RUN_DELAY);
	COPY(out.pid, p + OFF_PID);
	COPY(out.cpu, p + OFF_TASK_CPU);
	hide(seq);
	bpf_seq_write((void *)seq, &out, sizeof(out));
	return 0;
}
