// SPDX-License-Identifier: GPL-2.0-only
/*
 * tally.c - samples for the metrics: which control groups had tasks that ran, waited, or waited beside an idle CPU.
 *
 * While no CPU is idle, a crowd of waiting tasks is looked at less often: after a look at n tasks, the next n / 64 samples only
 * look for an idle CPU and at the tasks that run. Then nothing can be wasted, and the next look stands for all the time since.
 *
 * A timer program of its own takes a sample of all runqueues. Each sample stands for the time since the one before it. A
 * task counts for the group that limits its CPU time (task_struct.sched_task_group). A CPU counts as idle if its runqueue
 * is empty. The checker's own tasks do not count as waiting, nor do those that delayed dequeue left on the queue.
 *
 * It is compiled as one text between look.c and unclaimed.c.
 */
#define GROUPS 1024		/* control groups with a row of their own; the others share the last one */
#define TRIES 4			/* rows that a group may have */
#define SAMPLE_STEPS 512	/* tasks that one sample looks at; what it leaves out is counted as cut */

struct wc_group {
	u64 id;			/* of the kernfs node, which is the inode of the folder; 0: the row is free. The root has ROOT */
	u64 ran, waited, beside;	/* ns of tasks: running, waiting, and waiting while an idle CPU was allowed to run them */
	u64 longest;		/* the longest wait so far of a task that waited beside an idle CPU; set to 0 by the reader */
};

struct wc_tally {
	u64 last, samples, cut;
	u64 beside;		/* ns in which at least one task waited beside an idle CPU that was allowed to run it */
	u64 wasted;		/* ns of CPUs: each idle one counts for one waiting task at most */
	u64 spent;		/* ns in the checker's timer programs */
	u64 walked;		/* when all waiting tasks were looked at last */
	u32 skip, was_cut;	/* skip: samples that need not look at the waiting tasks; was_cut: the last look left some out */
};

#define ROOT (~0ULL)		/* the root, and autogroups, which have no cgroup */
ARRAY(groups, struct wc_group, GROUPS + 1, F_MMAPABLE);
ARRAY(tally, struct wc_tally, 1, F_MMAPABLE);

static __always_inline void spent(u64 since)
{
	u32 zero = 0;
	struct wc_tally *t = bpf_map_lookup_elem(&tally, &zero);

	if (t)
		t->spent += bpf_ktime_get_ns() - since;
}

/* Return the number of the row of the group that limits p. */
SEPARATE u32 group_of(u64 p)
{
	u64 at = 0, id = 0;
	struct wc_group *g;
	u32 k;

	if (HAS(OFF_SCHED_GROUP) && HAS(OFF_GROUP_CGROUP)) {
		COPY(at, p + OFF_SCHED_GROUP);
		COPY(at, at + OFF_GROUP_CGROUP);
		if (at) {
			COPY(at, at + OFF_CGROUP_KN);
			COPY(id, at + OFF_KN_ID);
		} else {
			id = ROOT;
		}
	}
	if (!id)
		return GROUPS;
#pragma unroll
	for (int i = 0; i < TRIES; i++) {
		k = (id + i * 257) % GROUPS;
		g = bpf_map_lookup_elem(&groups, &k);
		if (!g)
			break;
		if (!g->id)
			g->id = id;
		if (g->id == id)
			return k;
	}
	return GROUPS;
}

/* Count a task that was found on a queue: for the time since the last sample, and since all waiting tasks were looked at last. */
SEPARATE int add_waiting(u64 p, u64 ns, u64 waited_ns)
{
	u32 zero = 0, skip, row, k;
	struct wc_check *chk = bpf_map_lookup_elem(&check, &zero);
	volatile struct wc_scratch *s = (volatile struct wc_scratch *)bpf_map_lookup_elem(&scratch, &zero);
	struct wc_group *g;
	struct wc_cpu *c;
	u64 ptr, mask, free, take, taken;

	if (!chk || !s)
		return 0;
	skip = 1;
	COPY(skip, p + OFF_ON_CPU);
	skip |= delayed(p);
	if (HAS(OFF_THROTTLED)) {
		u8 throttled = 0;

		COPY(throttled, p + OFF_THROTTLED);
		skip |= throttled;
	}
	skip |= is_own(chk, p);
	if (skip)
		return 0;
	ptr = 0;
	COPY(ptr, p + OFF_CPUS_PTR);
	free = 0;
	taken = 0;
	for (int i = 0; i < MASK_WORDS; i++) {
		mask = 0;
		COPY(mask, ptr + 8 * i);
		free |= mask & s->idle[i];
		take = mask & s->asleep[i];
		take &= -take;
		take &= (u64)!taken * ~0ULL;
		s->asleep[i] &= ~take;
		taken |= take;
	}
	s->n_idle += !!taken;
	s->n_over += !!free;
	row = group_of(p);
	g = bpf_map_lookup_elem(&groups, &row);
	if (!g)
		return 0;
	g->waited += waited_ns;
	if (!free)
		return 0;
	g->beside += ns;
	if (HAS(OFF_LAST_QUEUED)) {
		u64 clock = 0, since = 0;

		k = s->cpu - 1;
		c = bpf_map_lookup_elem(&cpus, &k);
		if (!c)
			return 0;
		COPY(clock, c->rq + OFF_RQ_CLOCK);
		COPY(since, p + OFF_LAST_QUEUED);
		if (since && clock > since && clock - since > g->longest)
			g->longest = clock - since;
	}
	return 0;
}

int on_sample(void *ctx)
{
	u32 zero = 0;
	volatile struct wc_scratch *s = (volatile struct wc_scratch *)bpf_map_lookup_elem(&scratch, &zero);
	struct wc_tally *t = bpf_map_lookup_elem(&tally, &zero);
	struct wc_group *g;
	struct wc_cpu *c;
	u64 now = bpf_ktime_get_ns(), ns, p, node, head, ptr;
	u64 waited_ns;
	u32 nr, online, pid, row;

	if (!s || !t)
		return 0;
	ns = now - t->last;
	if (!t->last || ns > 1000000000)
		ns = 0;		/* the first sample, or the machine was suspended */
	t->last = now;
	t->samples++;
	s->n_idle = 0;
	for (int i = 0; i < MASK_WORDS; i++) {
		s->idle[i] = 0;
		s->asleep[i] = 0;
	}
	for (u32 i = 0; i < NCPU; i++) {
		u32 k = i;

		c = bpf_map_lookup_elem(&cpus, &k);
		if (!c || !c->rq)
			continue;
		online = 1;
		if (HAS(OFF_RQ_ONLINE))
			COPY(online, c->rq + OFF_RQ_ONLINE);
		if (!online)
			continue;
		nr = 1;
		COPY(nr, c->rq + OFF_RQ_NR);
		if (nr == 0) {
			s->idle[(i >> 6) & (MOST_WORDS - 1)] |= 1ULL << (i & 63);
			s->asleep[(i >> 6) & (MOST_WORDS - 1)] |= 1ULL << (i & 63);
			s->n_idle++;
		}
		p = 0;
		pid = 0;
		COPY(p, c->rq + OFF_RQ_CURR);
		COPY(pid, p + OFF_PID);
		if (!pid)
			continue;
		row = group_of(p);
		g = bpf_map_lookup_elem(&groups, &row);
		if (g)
			g->ran += ns;
	}
	if (!s->n_idle && t->skip) {
		t->skip--;
		t->cut += t->was_cut;
		spent(now);
		return 0;
	}
	waited_ns = now - t->walked;
	if (!ns || waited_ns > 1000000000)
		waited_ns = ns;
	t->walked = now;
	t->was_cut = 0;
	s->slot = 0;		/* tasks that were looked at */
	s->cpu = 0;
	s->head = 0;
	s->node = 0;
	s->n_over = 0;		/* tasks that waited beside an idle CPU */
	s->n_idle = 0;		/* idle CPUs that have been given one of them */
	for (u32 step = 0; step < NCPU + SAMPLE_STEPS; step++) {
		node = s->node;
		head = s->head;
		if (node == head) {
			u32 k = s->cpu;

			if (k >= NCPU) {
				t->beside += s->n_over ? ns : 0;
				t->wasted += s->n_idle * ns;
				t->skip = s->slot >> 6;
				spent(now);
				return 0;
			}
			s->cpu = k + 1;
			c = bpf_map_lookup_elem(&cpus, &k);
			if (!c || !c->rq)
				continue;
			nr = 0;
			COPY(nr, c->rq + OFF_RQ_NR);
			if (nr < 2)
				continue;
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
		s->slot++;
		add_waiting(p, ns, waited_ns);
	}
	t->cut++;
	t->was_cut = 1;
	t->skip = SAMPLE_STEPS >> 6;
	t->beside += s->n_over ? ns : 0;
	t->wasted += s->n_idle * ns;
	spent(now);
	return 0;
}
