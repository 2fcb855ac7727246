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
 * overloaded. The violation of the other CPUs continues, because balancing inside one node does not repair another node.
 * When the looks find no pair among the remaining CPUs, the suspicion is dropped.
 *
 * This file is compiled as one text after ring.c, schedtrace.c and snapshot.c. The programs that watch are separate from
 * those that record, so that the checker works while nothing is recorded.
 */
#define UNKNOWN 0xffffffff
#define MISSES 2		/* so many looks of a suspicion may find no pair */
#define OWN 4			/* processes that are this program's own */
#define OWN_THREADS 128		/* at most so many of their threads are looked at */

struct wc_check {
	u64 period, persist;	/* S, M; set by the loader */
	u64 event_driven, hold;	/* hold: the loader is still busy with the last violation */
	u64 next_check;
	u64 suspected_at;	/* 0: nothing suspected */
	u64 misses;		/* looks since then that found no pair */
	u64 dropped;		/* CPUs filled or relieved since then */
	u64 checks, suspected, cleared, confirmed;
	u64 began, confirmed_at;	/* of the last confirmed violation */
	u32 idle_cpu, busy_cpu, pid, busy_nr;
	s64 n_idle, n_over;	/* event-driven only */
	u64 moves, useless;	/* balancing migrations, and those to a queue at least as loaded */
	u64 looked;		/* find() calls */
	u64 truncated;		/* looks that ran out of steps */
	u64 by_move, by_fork, by_exit;	/* CPUs filled or relieved during a suspicion, by cause */
	u64 recovered;		/* suspicions that such events ended */
	u64 cleared_at;		/* when the last suspicion was dropped */
	u64 last_look;
	u64 late;		/* longest time between two looks of the last suspicion; long if ticks came late */
	u64 own_ns;		/* part of the suspicion in which the only idle CPUs ran this program or its starter */
	u32 own[OWN];		/* process ids of this program and of those that started it; 0: none. Set by the loader */
	u64 own_leader[OWN];	/* their leaders' task_struct; see own_leaders() */
};

/* For each CPU, the number of the suspicion (wc_check.suspected) in which it was last filled or relieved. */
struct wc_watched {
	u32 filled, relieved;
};

/*
 * The loops' variables are in a map. The verifier does not know the values that are loaded from there, so all paths
 * through an iteration end in the same state and it walks each iteration once. With local variables it gave up at four
 * CPUs.
 */
struct wc_scratch {
	u64 idle[MASK_WORDS];	/* without this program's own tasks */
	u64 asleep[MASK_WORDS];	/* those of them that run nothing at all */
	u64 head, node, task;
	u32 cpu, nr, n_idle, n_over, slot;
};

BPF_F_TABLE("array", u32, struct wc_check, check, 1, F_MMAPABLE);
BPF_F_TABLE("array", u32, struct wc_watched, watched, NCPU, 0);
BPF_F_TABLE("percpu_array", u32, struct wc_scratch, scratch, 1, 0);
BPF_F_TABLE("array", u32, u32, nr_of, NCPU, F_MMAPABLE);

#define COPY(dst, addr) bpf_probe_read_kernel(&(dst), sizeof(dst), (void *)(addr))

/* Is p a thread of the checker itself? The answer is computed without a branch, as the verifier walks every branch of a loop. */
static __always_inline u64 is_own(struct wc_check *chk, u64 p)
{
	u64 own = 0, other;
	u32 tgid = 0;

	COPY(tgid, p + OFF_TGID);
	for (int i = 0; i < OWN; i++) {
		other = (u64)(tgid ^ chk->own[i]) - 1; /* all ones if they are equal */
		hide(other);
		own |= other >> 63;
	}
	other = (u64)tgid - 1; /* 0 is no process */
	hide(other);
	return own & ~(other >> 63);
}

/*
 * Count this program's own tasks on each runqueue (wc_cpu.own). There are few, so walking their thread groups costs less
 * than looking at every task. A leader that has ended is recognised by its process id.
 */
static __always_inline void count_own(struct wc_check *chk, volatile struct wc_scratch *s)
{
#if defined(OFF_SIGNAL) && defined(OFF_THREAD_HEAD) && defined(OFF_THREAD_NODE)
	struct wc_cpu *c;
	u64 p, head;
	u32 on_rq, cpu, k;

	s->slot = 0;
	s->head = 0;
	s->node = 0;
	for (u32 step = 0; step < OWN + OWN_THREADS; step++) {
		head = s->head;
		if (s->node == head) {
			k = s->slot;
			if (k >= OWN)
				return;
			s->slot = k + 1;
			p = chk->own_leader[k & (OWN - 1)];
			if (!p)
				continue;
			head = 0;
			COPY(head, p + OFF_SIGNAL);
			head += OFF_THREAD_HEAD;
			p = head;
			COPY(p, head);
			s->head = head;
			s->node = p;
			continue;
		}
		p = s->node - OFF_THREAD_NODE;
		on_rq = 0;
		COPY(on_rq, p + OFF_ON_RQ);
		cpu = 0;
		COPY(cpu, p + OFF_TASK_CPU);
		c = cpus.lookup(&cpu);
		if (c)
			c->own += is_own(chk, p) & on_rq & 1; /* 1: TASK_ON_RQ_QUEUED */
		p = head;
		COPY(p, s->node);
		s->node = p;
	}
#endif
}

/*
 * Algorithm 2: find all idle CPUs, then the first waiting thread anywhere that one of them may run. Only fair tasks are
 * looked at (rq->cfs_tasks), because SCHED_EXT and real-time tasks have balancers of their own. The lists are read
 * without their lock, so one look may be wrong; a violation needs many looks. The CPUs that were filled or relieved
 * during the suspicion of that number are left out; 0 means that there is no suspicion.
 *
 * The tasks of the checker itself do not count, so a CPU that runs only these counts as idle. The result is then
 * ONLY_OWN if no other idle CPU could run the waiting thread: such a look neither ends a suspicion nor adds to it.
 */
enum { NONE, FOUND, ONLY_OWN };

static __always_inline int find(struct wc_check *chk, u32 suspicion)
{
	u32 zero = 0;
	volatile struct wc_scratch *s = (volatile struct wc_scratch *)scratch.lookup(&zero);
	struct wc_watched *seen;
	struct wc_cpu *c;
	u64 p, node, head, mask, ptr, free, asleep;
	u32 nr, on_cpu, online;
	s32 others;

	if (!s)
		return NONE;
	chk->looked++;
	for (int i = 0; i < MASK_WORDS; i++) {
		s->idle[i] = 0;
		s->asleep[i] = 0;
	}
	s->n_idle = 0;
	s->n_over = 0;
	count_own(chk, s);
	for (u32 i = 0; i < NCPU; i++) {
		u32 k = i;

		c = cpus.lookup(&k);
		seen = watched.lookup(&k);
		if (!c || !c->rq || !seen)
			continue;
		online = 1;
#ifdef OFF_RQ_ONLINE
		COPY(online, c->rq + OFF_RQ_ONLINE);
#endif
		nr = 1;
		COPY(nr, c->rq + OFF_RQ_NR);
		others = nr - c->own;
		c->own = 0;
		c->others = 0;
		if (!online)
			continue;
		if (others >= 2) {
			if (suspicion && seen->relieved == suspicion)
				continue;
			c->others = others;
			s->n_over++;
		} else if (others <= 0) {
			if (suspicion && seen->filled == suspicion)
				continue;
			s->idle[(i >> 6) % MASK_WORDS] |= 1ULL << (i & 63);
			s->asleep[(i >> 6) % MASK_WORDS] |= (u64)(((u64)nr - 1) >> 63) << (i & 63);
			s->n_idle++;
			chk->idle_cpu = i;
		}
	}
	if (!s->n_idle || !s->n_over)
		return NONE;
	s->cpu = 0;
	s->head = 0;
	s->node = 0;
	/* one loop over the CPUs and the tasks on each: a step goes to the next task or to the next CPU */
	for (u32 step = 0; step < NCPU + STEPS; step++) {
		node = s->node;
		head = s->head;
		if (node == head) {
			u32 k = s->cpu;

			if (k >= NCPU)
				return NONE;
			s->cpu = k + 1;
			c = cpus.lookup(&k);
			if (!c || !c->others)
				continue;
			s->nr = c->others;
			head = c->rq + OFF_RQ_CFS_TASKS;
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
#ifdef OFF_DELAYED
		{
			u8 delayed = 0;

			COPY(delayed, p + OFF_DELAYED);
			on_cpu |= delayed;
		}
#endif
		on_cpu |= is_own(chk, p);
		if (on_cpu)
			continue;
		ptr = 0;
		COPY(ptr, p + OFF_CPUS_PTR);
		free = 0;
		asleep = 0;
		for (int i = 0; i < MASK_WORDS; i++) {
			mask = 0;
			COPY(mask, ptr + 8 * i);
			free |= mask & s->idle[i];
			asleep |= mask & s->asleep[i];
		}
		if (free) {
			u32 pid = 0;

			COPY(pid, p + OFF_PID);
			chk->pid = pid;
			chk->busy_cpu = s->cpu - 1;
			chk->busy_nr = s->nr;
			return asleep ? FOUND : ONLY_OWN;
		}
	}
	chk->truncated++;
	return NONE;
}

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

int on_timer(void *ctx)
{
	u32 zero = 0, watching;
	struct wc_check *chk = check.lookup(&zero);
	u64 now = bpf_ktime_get_ns(), since;
	int found;

	if (!chk || chk->hold)
		return 0;
	watching = chk->suspected_at != 0;
	if (!watching && !due(chk, now))
		return 0;
	if (!watching || chk->event_driven)
		chk->checks++;
	since = now - chk->last_look;
	if (watching && since > chk->late)
		chk->late = since;
	chk->last_look = now;
	found = find(chk, watching ? (u32)chk->suspected : 0);
	if (!watching) {
		if (found == FOUND)
			suspect(chk, now);
		return 0;
	}
	if (found == NONE) {
		if (++chk->misses > MISSES) {
			chk->recovered += chk->dropped != 0;
			clear(chk, now);
		}
		return 0;
	}
	if (found == ONLY_OWN)
		chk->own_ns += since;
	else if (now - chk->suspected_at >= chk->persist + chk->own_ns) {
		chk->began = chk->suspected_at;
		chk->confirmed_at = now;
		chk->suspected_at = 0;
		chk->hold = 1;
		chk->confirmed++;
	}
	return 0;
}

static __always_inline u32 nr_running(u32 cpu)
{
	struct wc_cpu *c = cpus.lookup(&cpu);
	u32 nr = UNKNOWN;

	if (c && c->rq)
		COPY(nr, c->rq + OFF_RQ_NR);
	return nr;
}

static __always_inline void fill(struct wc_check *chk, u32 cpu, u64 *by)
{
	struct wc_watched *seen = watched.lookup(&cpu);

	if (!seen || seen->filled == (u32)chk->suspected)
		return;
	seen->filled = (u32)chk->suspected;
	__sync_fetch_and_add(&chk->dropped, 1);
	__sync_fetch_and_add(by, 1);
}

static __always_inline void relieve(struct wc_check *chk, u32 cpu, u64 *by)
{
	struct wc_watched *seen = watched.lookup(&cpu);

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
	u64 load = 0;
#if defined(DETACHED_LOAD) && defined(OFF_TASK_LOAD)
	load = LOAD(u64, p, OFF_TASK_LOAD);
#if defined(OFF_SE_PARENT) && defined(OFF_CFS_TG) && defined(OFF_TG_LOAD)
	u64 se = p + OFF_SE, cfs, parent, group, all, shares;

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
#endif
#endif
	return load;
}

/* sched_migrate_task(p, dest_cpu): p has left the source queue and is not yet on the other (detach_task, move_queued_task). */
int watch_migrate(u64 *ctx)
{
	u32 zero = 0, dst = (u32)ctx[1], src;
	struct wc_check *chk = check.lookup(&zero);
	u64 p = ctx[0];

	hide(p);
	if (!chk || why_moved(p) != WC_OP_BALANCE || is_own(chk, p))
		return 0;
	src = task_cpu(p);
	__sync_fetch_and_add(&chk->moves, 1);
	if (chk->suspected_at) {
		if (nr_running(dst) == 0)
			fill(chk, dst, &chk->by_move);
		if (nr_running(src) == 1)
			relieve(chk, src, &chk->by_move);
	}
#ifdef OFF_CFS_LOAD
	{
		struct wc_cpu *from = cpus.lookup(&src), *to = cpus.lookup(&dst);
		u64 a = 0, b = 0;

		if (!from || !to || !from->rq || !to->rq)
			return 0;
		COPY(a, from->rq + OFF_RQ_CFS + OFF_CFS_LOAD);
		COPY(b, to->rq + OFF_RQ_CFS + OFF_CFS_LOAD);
		a += left_with(p);
		if (a <= b)
			__sync_fetch_and_add(&chk->useless, 1);
	}
#endif
	return 0;
}

/* sched_wakeup_new(p): p is on its queue. */
int watch_new(u64 *ctx)
{
	u32 zero = 0, cpu;
	struct wc_check *chk = check.lookup(&zero);
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
	struct wc_check *chk = check.lookup(&zero);

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
	struct wc_check *chk = check.lookup(&zero);

	hide(rq);
	cpu = LOAD(u32, rq, OFF_RQ_CPU);
	nr = LOAD(u32, rq, OFF_RQ_NR);
	old = nr_of.lookup(&cpu);
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
	u64 meta = ctx->meta, p = ctx->task, seq = 0;
	u32 zero = 0, pid = 0, tgid = 0;
	struct wc_check *chk = check.lookup(&zero);

	hide(meta);
	hide(p);
	if (!p || !chk)
		return 0;
	COPY(pid, p + OFF_PID);
	COPY(tgid, p + OFF_TGID);
	if (pid != tgid)
		return 0;
	for (int i = 0; i < OWN; i++)
		if (pid == chk->own[i])
			chk->own_leader[i] = p;
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
#ifdef OFF_RUN_DELAY
	COPY(out.run_delay, p + OFF_RUN_DELAY);
#endif
	COPY(out.pid, p + OFF_PID);
	COPY(out.cpu, p + OFF_TASK_CPU);
	hide(seq);
	bpf_seq_write((void *)seq, &out, sizeof(out));
	return 0;
}
