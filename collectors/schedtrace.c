// SPDX-License-Identifier: GPL-2.0-only
/*
 * schedtrace.c - every scheduling event into per-CPU rings of 16-byte records.
 *
 * Constants come by -D from the loader: NCPU, RECORDS and IRQ_RECORDS (powers of two), MASK_WORDS, PIDS, OVERWRITE,
 * offsets of kernel structures (OFF_*), which events (WANT_*).  Compiled by bcc; see schedtrace.py.
 *
 * A ring is a slice of one mmapable array. Programs on one CPU can only nest (an interrupt ends before what it
 * interrupted goes on), so no atomic operation is needed: a program that finds another one at work on its CPU writes
 * into a second, small ring of that CPU.
 */
#include "wastedcores.h"

#define in_order() asm volatile("" ::: "memory")
#define hide(x) asm volatile("" : "+r"(x)) /* bcc must not rewrite what follows from ctx */

#ifdef TYPED
#define LOAD(type, p, off) (*(volatile type *)((p) + (off)))
#else
#define LOAD(type, p, off) ({ type _v = 0; bpf_probe_read_kernel(&_v, sizeof(_v), (void *)((p) + (off))); _v; })
#endif

#ifndef F_MMAPABLE
#define F_MMAPABLE 1024
#endif

struct wc_cpu {       /* written by the kernel (but for on and t0), two cache lines */
	u64 head;     /* records written to the main ring */
	u64 limit;    /* head may go here before the reader's position is looked at again */
	u64 lost;
	u64 told;     /* of them already told by WC_LOST */
	u64 seen;
	u64 irq_head; /* the second ring */
	u64 irq_limit;
	u32 nest;
	u32 cur;      /* 1 + pid running here, as the last switch said; 0: not known yet */
	u64 last_load;
	u64 rq;       /* address of this CPU's runqueue, for the checker */
	u64 extra;    /* records that are not events of their own: names, masks, WC_LOST */
	u64 on;       /* record at all; with t0, written by the loader: here, and not in a map of their own, for the */
	u64 t0;       /* sake of one page less to touch per event */
	u64 spare[3];
};

struct wc_tail {      /* written by the reader: how far it has read */
	u64 tail, irq_tail, spare[6];
};

struct wc_config {
	u64 t0;
	u64 spare[7];
};

struct wc_waker {
	u32 pid, by_pid, cpu, spare;
};

struct wc_masks {
	u32 hash[1024];
};

BPF_F_TABLE("array", u32, struct wc_cpu, cpus, NCPU, F_MMAPABLE);
BPF_F_TABLE("array", u32, struct wc_tail, tails, NCPU, F_MMAPABLE);
BPF_F_TABLE("array", u32, struct wc_config, config, 1, F_MMAPABLE);
BPF_F_TABLE("array", u32, struct wc_record, ring, NCPU * RECORDS, F_MMAPABLE);
BPF_F_TABLE("array", u32, struct wc_record, irq_ring, NCPU * IRQ_RECORDS, F_MMAPABLE);
#define WAKERS 4096
BPF_F_TABLE("array", u32, struct wc_waker, wakers, WAKERS, 0);
BPF_F_TABLE("array", u32, struct wc_masks, masks, PIDS / 1024, 0);

#define PID(p) ((u64)((p) & 0x3fffff))
#define CPU(c) ((u64)((c) & 0x1fff))

struct where {
	struct wc_cpu *c;
	u32 cpu;
	u32 nest;
	u64 now;      /* w0 without kind and x */
};

#ifdef HAVE_CHECKER /* unclaimed.c follows */
static __always_inline void checker_nr(struct where *w, u32 cpu, u32 nr);
static __always_inline void checker_event(struct where *w);
static __always_inline void checker_migrate(struct where *w, u32 src, u32 dst, u64 op);
#endif

/* Begin: find this CPU's state and the time. Every program that gets true must call leave(). */
static __always_inline int enter(struct where *w)
{
	w->cpu = bpf_get_smp_processor_id();
	w->c = cpus.lookup(&w->cpu);
	if (!w->c || !w->c->on)
		return 0;
	w->nest = w->c->nest;
	w->c->nest = w->nest + 1;
	in_order();
	w->now = (bpf_ktime_get_ns() - w->c->t0) & 0xffffffffffffULL;
	return 1;
}

static __always_inline void leave(struct where *w)
{
	in_order();
	w->c->nest = w->nest;
}

static __always_inline void store(struct where *w, u64 kind_x, u64 w1)
{
	struct wc_record *r;
	u32 k;

	if (w->nest) {
		k = (w->cpu * IRQ_RECORDS) + (w->c->irq_head & (IRQ_RECORDS - 1));
		r = irq_ring.lookup(&k);
	} else {
		k = (w->cpu * RECORDS) + (w->c->head & (RECORDS - 1));
		r = ring.lookup(&k);
	}
	if (!r)
		return;
	r->w0 = w->now | kind_x << 48;
	r->w1 = w1;
	in_order();
	if (w->nest)
		w->c->irq_head++;
	else
		w->c->head++;
}

/* Room for n records? Streaming never overwrites what the reader has not taken. */
static __always_inline int room(struct where *w, u32 n)
{
#ifndef OVERWRITE
	struct wc_tail *t;

	if (w->nest) {
		if (w->c->irq_head + n + 1 > w->c->irq_limit) {
			t = tails.lookup(&w->cpu);
			if (!t)
				return 0;
			w->c->irq_limit = t->irq_tail + IRQ_RECORDS;
			if (w->c->irq_head + n + 1 > w->c->irq_limit) {
				w->c->lost++;
				return 0;
			}
		}
		w->c->extra += n - 1;
		return 1;
	}
	if (w->c->head + n + 1 > w->c->limit) {
		t = tails.lookup(&w->cpu);
		if (!t)
			return 0;
		w->c->limit = t->tail + RECORDS;
		/* after a loss wait for an eighth of the ring: one long gap is worth more than many short ones */
		if (w->c->head + n + 1 > w->c->limit - (w->c->lost != w->c->told ? RECORDS / 8 : 0)) {
			w->c->limit = 0;
			w->c->lost++;
			return 0;
		}
	}
	if (w->c->lost != w->c->told) {
		u64 gap = w->c->lost - w->c->told;

		w->c->told = w->c->lost;
		w->c->extra++;
		store(w, WC_LOST, gap);
	}
#endif
	w->c->extra += n - 1;
	return 1;
}

static __always_inline void put(struct where *w, u64 kind_x, u64 w1)
{
	w->c->seen++;
	if (room(w, 1))
		store(w, kind_x, w1);
}

#define KX(kind, x) ((u64)(kind) | (u64)(x) << 5)

static __always_inline u32 task_cpu(u64 p)
{
	return LOAD(u32, p, OFF_TASK_CPU);
}

static __always_inline u32 current_pid(struct wc_cpu *c)
{
	if (!c->cur)
		c->cur = (u32)bpf_get_current_pid_tgid() + 1;
	return c->cur - 1;
}

/* Two words of a name, from the task or from a string. */
static __always_inline void put_named(struct where *w, u64 kind, u64 w1, u64 name)
{
	u64 a = 0, b = 0;

	w->c->seen++;
	if (!room(w, 3))
		return;
	bpf_probe_read_kernel(&a, 8, (void *)name);
	bpf_probe_read_kernel(&b, 8, (void *)(name + 8));
	store(w, KX(kind, 0), w1);
	store(w, KX(WC_NAME, 0), a);
	store(w, KX(WC_NAME, 1), b);
}

/*
 * Affinity has no tracepoint, and tracing the system calls would slow every system call. So a task's mask is looked at
 * when it leaves or takes a CPU and recorded when it is another one than last time: exact for a task that changes its
 * own mask, late (at its next switch) for one that waits while somebody else changes it.
 */
static __always_inline void affinity(struct where *w, u64 p, u32 pid)
{
	u32 allowed = LOAD(u32, p, OFF_NR_ALLOWED);
	u64 ptr = 0, word = 0, folded = 0;
	u32 k = pid >> 10, hash = 0, old;
	struct wc_masks *m;

	if (pid >= PIDS || !pid)
		return;
	m = masks.lookup(&k);
	if (!m)
		return;
	old = m->hash[pid & 1023];
	if (allowed >= NONLINE && !old)
		return; /* the common case: may run anywhere, as before */
	ptr = LOAD(u64, p, OFF_CPUS_PTR);
	if (allowed < NONLINE) {
		for (int i = 0; i < MASK_WORDS; i++) {
			bpf_probe_read_kernel(&word, 8, (void *)(ptr + 8 * i));
			folded = folded * 0x9E3779B97F4A7C15ULL + word;
		}
		hash = (u32)(folded ^ folded >> 32) | 1;
	}
	if (hash == old)
		return;
	w->c->seen++;
	if (!room(w, 1 + MASK_WORDS))
		return;
	m->hash[pid & 1023] = hash;
	store(w, KX(WC_AFFINITY, 0), PID(pid) | (u64)MASK_WORDS << 22);
	for (int i = 0; i < MASK_WORDS; i++) {
		bpf_probe_read_kernel(&word, 8, (void *)(ptr + 8 * i));
		store(w, KX(WC_MASK, i), word);
	}
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
	put(&w, KX(WC_NR_RUNNING, 0), cpu | (nr & 0xffffff) << 16 | (u64)change << 40);
#ifdef HAVE_CHECKER
	checker_nr(&w, (u32)cpu, (u32)nr);
#endif
	leave(&w);
	return 0;
}

/* Index into "RSDTtXZPI": the letter sched_switch prints (include/linux/sched.h: task_index_to_char, 6.12) */
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
	u32 state, pid, next_pid;

	hide(prev);
	hide(next);
#ifdef SWITCH_STATE
	state = (u32)ctx[SWITCH_STATE];
#endif
	if (!enter(&w))
		return 0;
#ifndef SWITCH_STATE
	state = LOAD(u32, prev, OFF_STATE);
#endif
	pid = LOAD(u32, prev, OFF_PID);
	next_pid = LOAD(u32, next, OFF_PID);
	w.c->cur = next_pid + 1;
	x = preempt ? 1 << 10 : state_index(state);
	put(&w, KX(WC_SWITCH, x), PID(pid) | PID(next_pid) << 22 |
	    (u64)(LOAD(u32, next, OFF_PRIO) & 0xff) << 44 | (u64)(LOAD(u32, prev, OFF_PRIO) & 0xff) << 52);
#ifdef WANT_AFFINITY
	affinity(&w, prev, pid);
	affinity(&w, next, next_pid);
#endif
	leave(&w);
	return 0;
}

/* Who wakes: noted here, because the wakeup itself may happen in an interrupt on the wakee's CPU (ttwu_queue). */
int on_waking(u64 *ctx)
{
	u64 p = ctx[0];
	u32 pid, k, cpu = bpf_get_smp_processor_id();
	struct wc_cpu *c = cpus.lookup(&cpu);
	struct wc_waker *n;

	hide(p);
	pid = LOAD(u32, p, OFF_PID);
	k = pid & (WAKERS - 1);
	n = wakers.lookup(&k);
	if (c && n) {
		n->pid = pid;
		n->by_pid = current_pid(c);
		n->cpu = cpu;
	}
	return 0;
}

static __always_inline void woken(struct where *w, u64 p, u32 kind)
{
	u32 pid = LOAD(u32, p, OFF_PID), k = pid & (WAKERS - 1), by = current_pid(w->c), src = w->cpu;
	struct wc_waker *n = wakers.lookup(&k);

	if (kind == WC_WAKEUP && n && n->pid == pid) {
		by = n->by_pid;
		src = n->cpu;
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
#ifdef HAVE_CHECKER
	checker_event(&w);
#endif
	leave(&w);
	return 0;
}

int on_migrate(u64 *ctx)
{
	struct where w;
	u64 p = ctx[0], by, op = WC_OP_OTHER;
	u32 dest = (u32)ctx[1], state;

	hide(p);
	if (!enter(&w))
		return 0;
	state = LOAD(u32, p, OFF_STATE);
	if (state & 0x200) /* TASK_WAKING */
		op = WC_OP_WAKEUP;
	else if (state & 0x800) /* TASK_NEW */
		op = WC_OP_FORK;
	else if (LOAD(u32, p, OFF_ON_RQ) == 2) /* TASK_ON_RQ_MIGRATING: detach_task, move_queued_task */
		op = WC_OP_BALANCE;
	by = current_pid(w.c);
	put(&w, KX(WC_MIGRATE, (PID(by) >> 16) | op << 6),
	    PID(LOAD(u32, p, OFF_PID)) | CPU(task_cpu(p)) << 22 | CPU(dest) << 35 | PID(by) << 48);
#ifdef HAVE_CHECKER
	checker_migrate(&w, task_cpu(p), dest, op);
#endif
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
#ifdef WANT_AFFINITY
	k = pid >> 10; /* the number may have belonged to another task */
	m = masks.lookup(&k);
	if (m && pid < PIDS)
		m->hash[pid & 1023] = 0;
	affinity(&w, child, pid);
#endif
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
#ifdef HAVE_CHECKER
	checker_event(&w);
#endif
	leave(&w);
	return 0;
}

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

/* pelt_cfs_tp fires for every group's queue: only the root one is the runqueue's load */
int on_load(u64 *ctx)
{
	struct where w;
	u64 cfs = ctx[0], rq, load;

	hide(cfs);
#ifdef OFF_CFS_RQ
	rq = LOAD(u64, cfs, OFF_CFS_RQ);
	if (rq + OFF_RQ_CFS != cfs)
		return 0;
#else
	rq = cfs - OFF_RQ_CFS;
#endif
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

/* Iterator over all tasks: the state at the start (and the address of every runqueue). */
struct iter_task {
	u64 meta;
	u64 task;
};

int snapshot(struct iter_task *ctx)
{
	u64 meta = ctx->meta, p = ctx->task, cfs = 0, rq = 0, seq = 0, ptr = 0;
	u32 zero = 0, cpu = 0, on_cpu = 0, nr = 0, curr = 0;
	struct wc_config *conf = config.lookup(&zero);
	struct wc_cpu *c;
	struct {
		struct wc_task t;
		u64 mask[MASK_WORDS];
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
#ifdef OFF_CFS_RQ
	bpf_probe_read_kernel(&rq, 8, (void *)(cfs + OFF_CFS_RQ));
#else
	rq = cfs - OFF_RQ_CFS;
#endif
	bpf_probe_read_kernel(&nr, 4, (void *)(rq + OFF_RQ_NR));
	bpf_probe_read_kernel(&out.t.state, 1, (void *)(p + OFF_ON_RQ));
	bpf_probe_read_kernel(&on_cpu, 4, (void *)(p + OFF_ON_CPU));
	out.t.state = out.t.state ? (on_cpu ? 2 : 1) : 0;
#ifdef OFF_DELAYED
	/* asleep but left on the queue until its lag is gone: not waiting (152e11f6df29, 6.12) */
	{
		u8 delayed = 0;

		bpf_probe_read_kernel(&delayed, 1, (void *)(p + OFF_DELAYED));
		if (delayed)
			out.t.state = 0;
	}
#endif
	out.t.cpu = cpu;
	out.t.rq_nr = nr;
	c = cpus.lookup(&cpu);
	if (c) {
		u32 rq_cpu = ~0;

		bpf_probe_read_kernel(&rq_cpu, 4, (void *)(rq + OFF_RQ_CPU));
		if (rq_cpu == cpu)
			c->rq = rq;
	}
	bpf_probe_read_kernel(&ptr, 8, (void *)(p + OFF_CPUS_PTR));
	for (int i = 0; i < MASK_WORDS; i++)
		bpf_probe_read_kernel(&out.mask[i], 8, (void *)(ptr + 8 * i));
	hide(seq);
	bpf_seq_write((void *)seq, &out, sizeof(out));
	return 0;
}
