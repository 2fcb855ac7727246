// SPDX-License-Identifier: GPL-2.0-only
/*
 * schedtrace.c - one program per scheduling event.
 *
 * It is compiled as one text after ring.c and runqueue.c; see schedtrace.py.
 */
/*
 * Affinity has no tracepoint, and tracing the system calls would slow every system call. So a task's mask is looked at
 * when it leaves or takes a CPU, and recorded when it differs from the last one. This is exact for a task that changes
 * its own mask, and late (at the next switch) for a task that waits while another task changes its mask.
 */
#define mask_word(ptr, i) LOAD(u64, ptr, 8 * (i))

/* Return 0 if the task may run anywhere, else its mask folded to 32 bits, which is never 0. */
static __always_inline u32 mask_hash(u64 p)
{
	u64 folded = 0, ptr;

	if (LOAD(u32, p, OFF_NR_ALLOWED) >= NONLINE)
		return 0;
	ptr = LOAD(u64, p, OFF_CPUS_PTR);
#pragma unroll
	for (int i = 0; i < MASK_WORDS; i++)
		folded = folded * 0x9E3779B97F4A7C15ULL + mask_word(ptr, i);
	return (u32)(folded ^ folded >> 32) | 1;
}

/* Record the mask unless it is the one that was recorded last; return the hash of what is recorded now. */
static __always_inline u32 affinity(struct where *w, u64 p, u32 pid, u32 hash)
{
	u32 k = pid >> 10, old;
	struct wc_masks *m;
	u64 ptr;

	if (pid >= PIDS || !pid)
		return hash;
	m = bpf_map_lookup_elem(&masks, &k);
	if (!m)
		return hash;
	old = m->hash[pid & 1023];
	if (hash == old)
		return hash;
	w->c->seen++;
	if (!room(w, 1 + MASK_WORDS))
		return old;
	m->hash[pid & 1023] = hash;
	store(w, KX(WC_AFFINITY, 0), PID(pid) | (u64)MASK_WORDS << 22);
	ptr = LOAD(u64, p, OFF_CPUS_PTR);
#pragma unroll
	for (int i = 0; i < MASK_WORDS; i++)
		store(w, KX(WC_MASK, i), mask_word(ptr, i));
	return hash;
}

int on_nr_running(u64 *ctx)
{
	struct where w;
	u64 rq = ctx[0];
	s64 change = (s64)(s32)ctx[1];
	u64 cpu, nr;

	hide(rq);
	if (!enter(&w))
		return 0;
	cpu = LOAD(u32, rq, OFF_RQ_CPU);
	nr = LOAD(u32, rq, OFF_RQ_NR);
	if (COUNTS_DELAYED) {
		u32 k = cpu, asleep, *last = bpf_map_lookup_elem(&asleep_of, &k);

		asleep = LOAD(u32, rq, OFF_RQ_CFS + OFF_CFS_QUEUED) - LOAD(u32, rq, OFF_RQ_CFS + OFF_CFS_RUNNABLE);
		nr -= asleep;
		if (last)
			*last = asleep;
	}
	if (WANT_THROTTLE && change > 0)
		unthrottle(&w, cpu);
	put(&w, KX(WC_NR_RUNNING, 0), cpu | (nr & 0xffffff) << 16 | (u64)change << 40);
	leave(&w);
	return 0;
}

/* Return the index into "RSDTtXZPI" of the letter that sched_switch prints (include/linux/sched.h: task_index_to_char, 6.12) */
static __always_inline u64 state_index(u32 state)
{
	if (!state)
		return 0;
	if ((state & 0x402) == 0x402) /* TASK_IDLE: TASK_UNINTERRUPTIBLE | TASK_NOLOAD */
		return 8;
	if (state & 0x01) return 1;
	if (state & 0x02) return 2;
	if (state & 0x04) return 3;
	if (state & 0x08) return 4;
	if (state & 0x90) return 5; /* EXIT_DEAD, TASK_DEAD */
	if (state & 0x20) return 6;
	if (state & 0x40) return 7;
	return 2; /* TASK_RTLOCK_WAIT */
}

int on_switch(u64 *ctx)
{
	struct where w;
	u64 prev = ctx[SWITCH_PREV], next = ctx[SWITCH_PREV + 1], preempt = ctx[0] & 1, x;
	u32 state = 0, pid, next_pid, known, hash;

	hide(prev);
	hide(next);
	if (TELLS_STATE)
		state = (u32)*(volatile u64 *)&ctx[SWITCH_STATE];
	if (!enter(&w))
		return 0;
	if (!TELLS_STATE)
		state = LOAD(u32, prev, OFF_STATE);
	pid = LOAD(u32, prev, OFF_PID);
	next_pid = LOAD(u32, next, OFF_PID);
	known = w.c->cur == pid + 1;
	w.c->cur = next_pid + 1;
	x = preempt ? 1 << 10 : state_index(state);
	if (WANT_THROTTLE && (preempt || !state))
		throttle(&w, prev, pid);
	put(&w, KX(WC_SWITCH, x), PID(pid) | PID(next_pid) << 22 |
	    (u64)(LOAD(u32, next, OFF_PRIO) & 0xff) << 44 | (u64)(LOAD(u32, prev, OFF_PRIO) & 0xff) << 52);
	if (COUNTS_DELAYED && WANT_NR_RUNNING && !preempt && state && LOAD(u8, prev, OFF_DELAYED))
		note_asleep(&w, w.cpu);
	if (WANT_AFFINITY) {
		/* most tasks leave with the mask with which they came, and then the table of all masks is not touched */
		hash = mask_hash(prev);
		if (!known || hash != w.c->cur_mask)
			affinity(&w, prev, pid, hash);
		w.c->cur_mask = affinity(&w, next, next_pid, mask_hash(next));
	}
	leave(&w);
	return 0;
}

/*
 * The waker. A wakeup that happens in the waker's context needs no note: the waker is the task that runs here. A wakeup
 * that is queued for the wakee's CPU (ttwu_queue_wakelist, kernel/sched/core.c) happens in an interrupt there, so the
 * waker is noted when it is queued: at csd_queue_cpu (bf5a8c26ad7c, 6.5) or, before that, at every sched_waking, which
 * costs one more probe per wakeup.
 */
static __always_inline void note_waker(struct wc_cpu *c, u32 cpu, u32 pid)
{
	u32 k = pid & (WAKERS - 1);
	struct wc_waker *n = bpf_map_lookup_elem(&wakers, &k);

	if (n) {
		n->pid = pid;
		n->by_pid = current_pid(c);
		n->cpu = cpu;
	}
}

#define CSD_TYPE_MASK 0xf0 /* include/linux/smp_types.h */
#define CSD_TYPE_TTWU 0x30

int on_queued(u64 *ctx)
{
	u64 csd = ctx[3];
	u32 pid = 0, cpu = bpf_get_smp_processor_id();
	struct wc_cpu *c;

	hide(csd);
	if ((LOAD(u32, csd, OFF_CSD_FLAGS) & CSD_TYPE_MASK) != CSD_TYPE_TTWU)
		return 0; /* a function call */
	c = bpf_map_lookup_elem(&cpus, &cpu);
	if (!c || !c->on)
		return 0;
	bpf_probe_read_kernel(&pid, 4, (void *)(csd + (OFF_PID - OFF_WAKE_ENTRY)));
	note_waker(c, cpu, pid);
	return 0;
}

int on_waking(u64 *ctx)
{
	u64 p = ctx[0];
	u32 cpu = bpf_get_smp_processor_id();
	struct wc_cpu *c = bpf_map_lookup_elem(&cpus, &cpu);

	hide(p);
	if (c)
		note_waker(c, cpu, LOAD(u32, p, OFF_PID));
	return 0;
}

static __always_inline void woken(struct where *w, u64 p, u32 kind)
{
	u32 pid = LOAD(u32, p, OFF_PID), k = pid & (WAKERS - 1), by, src = w->cpu;
	struct wc_waker *n = bpf_map_lookup_elem(&wakers, &k);

	if (kind == WC_WAKEUP && n && n->pid == pid) {
		by = n->by_pid;
		src = n->cpu;
		n->pid = 0;
	} else {
		by = current_pid(w->c);
	}
	put(w, KX(kind, CPU(src) >> 7), PID(pid) | PID(by) << 22 | CPU(task_cpu(p)) << 44 | CPU(src) << 57);
}

int on_wakeup(u64 *ctx)
{
	struct where w;
	u64 p = ctx[0];

	hide(p);
	if (!enter(&w))
		return 0;
	woken(&w, p, WC_WAKEUP);
	if (COUNTS_DELAYED && WANT_NR_RUNNING) {
		u32 cpu = task_cpu(p), *last = bpf_map_lookup_elem(&asleep_of, &cpu);

		if (last && *last) /* a wakeup can only end the delay of a task, and its beginning was recorded */
			note_asleep(&w, cpu);
	}
	leave(&w);
	return 0;
}

int on_wakeup_new(u64 *ctx)
{
	struct where w;
	u64 p = ctx[0];

	hide(p);
	if (!enter(&w))
		return 0;
	woken(&w, p, WC_WAKEUP_NEW);
	leave(&w);
	return 0;
}

/* sched_migrate_task comes before the change (set_task_cpu), so the task's state shows why it is moved. */
static __always_inline u64 why_moved(u64 p)
{
	u32 state = LOAD(u32, p, OFF_STATE);

	if (state & 0x200) /* TASK_WAKING */
		return WC_OP_WAKEUP;
	if (state & 0x800) /* TASK_NEW */
		return WC_OP_FORK;
	if (LOAD(u32, p, OFF_ON_RQ) == 2) /* TASK_ON_RQ_MIGRATING: detach_task, move_queued_task */
		return WC_OP_BALANCE;
	return WC_OP_OTHER;
}

int on_migrate(u64 *ctx)
{
	struct where w;
	u64 p = ctx[0], by;
	u32 dest = (u32)ctx[1];

	hide(p);
	if (!enter(&w))
		return 0;
	by = current_pid(w.c);
	put(&w, KX(WC_MIGRATE, (PID(by) >> 16) | why_moved(p) << 6),
	    PID(LOAD(u32, p, OFF_PID)) | CPU(task_cpu(p)) << 22 | CPU(dest) << 35 | PID(by) << 48);
	leave(&w);
	return 0;
}

int on_fork(u64 *ctx)
{
	struct where w;
	u64 parent = ctx[0], child = ctx[1];
	u32 pid, ppid, k;
	struct wc_masks *m;

	hide(parent);
	hide(child);
	if (!enter(&w))
		return 0;
	pid = LOAD(u32, child, OFF_PID);
	ppid = LOAD(u32, parent, OFF_PID);
	put(&w, KX(WC_FORK, 0), PID(pid) | PID(ppid) << 22);
	if (WANT_AFFINITY) {
		k = pid >> 10; /* the pid may have belonged to another task before */
		m = bpf_map_lookup_elem(&masks, &k);
		if (m && pid < PIDS)
			m->hash[pid & 1023] = 0;
		affinity(&w, child, pid, mask_hash(child));
	}
	leave(&w);
	return 0;
}

int on_exec(u64 *ctx)
{
	struct where w;
	u64 p = ctx[0];
	u32 old = (u32)ctx[1];

	hide(p);
	if (!enter(&w))
		return 0;
	put_named(&w, WC_EXEC, PID(LOAD(u32, p, OFF_PID)) | PID(old) << 22, p + OFF_COMM);
	leave(&w);
	return 0;
}

int on_rename(u64 *ctx)
{
	struct where w;
	u64 p = ctx[0], name = ctx[1];

	hide(p);
	hide(name);
	if (!enter(&w))
		return 0;
	put_named(&w, WC_RENAME, PID(LOAD(u32, p, OFF_PID)), name);
	leave(&w);
	return 0;
}

int on_exit(u64 *ctx)
{
	struct where w;
	u64 p = ctx[0];

	hide(p);
	if (!enter(&w))
		return 0;
	put(&w, KX(WC_EXIT, 0), PID(LOAD(u32, p, OFF_PID)) | (u64)(LOAD(u32, p, OFF_PRIO) & 0xff) << 22);
	leave(&w);
	return 0;
}
