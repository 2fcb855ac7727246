// SPDX-License-Identifier: GPL-2.0-only
/*
 * look.c - one look of the online checker at all runqueues: is a CPU idle while a thread waits that it may run?
 *
 * It is compiled as one text after ring.c, runqueue.c, schedtrace.c and snapshot.c.
 */
#define MISSES 2		/* at most this many looks of a suspicion may find no pair */
#define OWN 4			/* processes that are this program's own */
#define OWN_THREADS 128		/* at most this many of their threads are looked at */

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
	u64 every_tick;		/* look at every tick, for chronic waste; set by the loader */
	u64 slice;		/* number of the slice (of length M) of the last look */
	u64 wasted;		/* one bit for each of the last ten slices, the newest lowest: did a look find a pair in it? */
	u64 gap;		/* what is longer between two looks of a suspicion was not seen, and does not count; set by the loader */
	u32 told[OWN];		/* process ids of this program and of those that started it, in its pid namespace; set by the loader */
	u32 own[OWN];		/* the same as the kernel counts; 0: none. See own_leaders() */
	u64 own_leader[OWN];	/* their leaders' task_struct; see own_leaders() */
};

/*
 * For each CPU, the number of the suspicion (wc_check.suspected) in which it was last filled or relieved, the tasks that
 * balancing has brought it so far, and at how many looks of the suspicion ``of`` no task waited there.
 */
struct wc_watched {
	u32 filled, relieved, pulled, of, eased, spare;
};

/*
 * The loops' variables are in a map. The verifier does not know the values that are loaded from there, so all paths
 * through an iteration end in the same state and it walks each iteration once. With local variables it gave up at four
 * CPUs.
 */
struct wc_scratch {
	u64 idle[MOST_WORDS];	/* without this program's own tasks */
	u64 asleep[MOST_WORDS];	/* those of them that run nothing at all */
	u64 head, node, task;
	u32 cpu, nr, n_idle, n_over, slot;
};

ARRAY(check, struct wc_check, 1, F_MMAPABLE);
SIZED(watched, struct wc_watched, NCPU, 0);
PERCPU(scratch, struct wc_scratch, 1);
SIZED(nr_of, u32, NCPU, F_MMAPABLE);

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

/* Does delayed dequeue keep p on its queue although it sleeps (152e11f6df29, 6.12)? */
static __always_inline u32 delayed(u64 p)
{
	u8 asleep = 0;

	if (HAS(OFF_DELAYED))
		COPY(asleep, p + OFF_DELAYED);
	return asleep;
}

/*
 * Count this program's own tasks on each runqueue (wc_cpu.own). There are few, so walking their thread groups costs less
 * than looking at every task. A leader that has ended is recognised by its process id.
 */
SEPARATE int count_own(void)
{
	u32 zero = 0, on_rq, cpu, k;
	struct wc_check *chk = bpf_map_lookup_elem(&check, &zero);
	volatile struct wc_scratch *s = (volatile struct wc_scratch *)bpf_map_lookup_elem(&scratch, &zero);
	struct wc_cpu *c;
	u64 p, head;

	if (!chk || !s || !HAS(OFF_THREAD_HEAD) || !HAS(OFF_THREAD_NODE))
		return 0;
	s->slot = 0;
	s->head = 0;
	s->node = 0;
	for (u32 step = 0; step < OWN + OWN_THREADS; step++) {
		head = s->head;
		if (s->node == head) {
			k = s->slot;
			if (k >= OWN)
				return 0;
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
		c = bpf_map_lookup_elem(&cpus, &cpu);
		if (c)
			c->own += is_own(chk, p) & on_rq & 1; /* 1: TASK_ON_RQ_QUEUED */
		p = head;
		COPY(p, s->node);
		s->node = p;
	}
	return 0;
}

/*
 * Algorithm 2: find all idle CPUs, then the first waiting thread anywhere that one of them may run. Only fair tasks are
 * looked at (rq->cfs_tasks), because SCHED_EXT and real-time tasks have balancers of their own. The lists are read
 * without their lock, so one look may be wrong; a violation needs many looks. The CPUs that were filled or relieved
 * during the suspicion of that number are left out, and so are those on which nobody waited at more than MISSES of its looks:
 * on a machine with many CPUs, short overloads of one after the other would otherwise look like one that lasts. 0 means that
 * there is no suspicion.
 *
 * The tasks of the checker itself do not count, so a CPU that runs only these counts as idle. The result is then
 * ONLY_OWN if no other idle CPU could run the waiting thread: such a look neither ends a suspicion nor adds to it.
 */
enum { NONE, FOUND, ONLY_OWN };

/* Return 1 if x is not 0, without a branch. */
static __always_inline u64 nonzero(u64 x)
{
	x |= -x;
	hide(x);
	return x >> 63;
}

/* Return the number of the lowest bit of x, which is not 0. */
static __always_inline u64 lowest_bit(u64 x)
{
	x &= -x;
	return nonzero(x & 0xaaaaaaaaaaaaaaaaULL) | nonzero(x & 0xccccccccccccccccULL) << 1 |
	       nonzero(x & 0xf0f0f0f0f0f0f0f0ULL) << 2 | nonzero(x & 0xff00ff00ff00ff00ULL) << 3 |
	       nonzero(x & 0xffff0000ffff0000ULL) << 4 | nonzero(x & 0xffffffff00000000ULL) << 5;
}

/* Return whether the task p waits and an idle CPU may run it. */
SEPARATE int may_move(u64 p)
{
	u32 zero = 0, skip = 1, pid = 0;
	struct wc_check *chk = bpf_map_lookup_elem(&check, &zero);
	volatile struct wc_scratch *s = (volatile struct wc_scratch *)bpf_map_lookup_elem(&scratch, &zero);
	u64 ptr = 0, mask, free = 0, asleep = 0, first = 0, word = 0, take, idle;

	if (!chk || !s)
		return NONE;
	COPY(skip, p + OFF_ON_CPU);
	skip |= delayed(p);
	skip |= is_own(chk, p);
	if (skip)
		return NONE;
	COPY(ptr, p + OFF_CPUS_PTR);
	for (int i = 0; i < MASK_WORDS; i++) {
		mask = 0;
		COPY(mask, ptr + 8 * i);
		free |= mask & s->idle[i];
		asleep |= mask & s->asleep[i];
	}
	if (!free)
		return NONE;
	/* the lowest such CPU, computed without a branch, as the verifier would walk each one again in every word */
	for (int i = 0; i < MASK_WORDS; i++) {
		mask = 0;
		COPY(mask, ptr + 8 * i);
		take = -nonzero(asleep);
		idle = mask & ((s->asleep[i] & take) | (s->idle[i] & ~take));
		take = nonzero(first) - 1; /* all ones if there was none in the words before */
		word |= i & take & -nonzero(idle);
		first |= idle & take;
	}
	chk->idle_cpu = 64 * word + lowest_bit(first);
	COPY(pid, p + OFF_PID);
	chk->pid = pid;
	chk->busy_cpu = s->cpu - 1;
	chk->busy_nr = s->nr;
	return asleep ? FOUND : ONLY_OWN;
}

SEPARATE int find(u32 suspicion)
{
	u32 zero = 0;
	struct wc_check *chk = bpf_map_lookup_elem(&check, &zero);
	volatile struct wc_scratch *s = (volatile struct wc_scratch *)bpf_map_lookup_elem(&scratch, &zero);
	struct wc_watched *seen;
	struct wc_cpu *c;
	u64 p, node, head, ptr;
	u32 nr, online, found;
	s32 others;

	if (!chk || !s)
		return NONE;
	chk->looked++;
	for (int i = 0; i < MASK_WORDS; i++) {
		s->idle[i] = 0;
		s->asleep[i] = 0;
	}
	s->n_idle = 0;
	s->n_over = 0;
	count_own();
	for (u32 i = 0; i < NCPU; i++) {
		u32 k = i;

		c = bpf_map_lookup_elem(&cpus, &k);
		seen = bpf_map_lookup_elem(&watched, &k);
		if (!c || !c->rq || !seen)
			continue;
		online = 1;
		if (HAS(OFF_RQ_ONLINE))
			COPY(online, c->rq + OFF_RQ_ONLINE);
		nr = 1;
		COPY(nr, c->rq + OFF_RQ_NR);
		others = nr - c->own;
		c->own = 0;
		c->others = 0;
		if (!online)
			continue;
		if (suspicion) {
			if (seen->of != suspicion)
				seen->eased = 0;
			seen->of = suspicion;
			seen->eased += others < 2;
		}
		if (others >= 2) {
			if (suspicion && (seen->relieved == suspicion || seen->eased > MISSES))
				continue;
			c->others = others;
			s->n_over++;
		} else if (others <= 0) {
			if (suspicion && seen->filled == suspicion)
				continue;
			s->idle[(i >> 6) & (MOST_WORDS - 1)] |= 1ULL << (i & 63);
			s->asleep[(i >> 6) & (MOST_WORDS - 1)] |= (u64)(((u64)nr - 1) >> 63) << (i & 63);
			s->n_idle++;
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
			c = bpf_map_lookup_elem(&cpus, &k);
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
		found = may_move(p);
		if (found)
			return found;
	}
	chk->truncated++;
	return NONE;
}
