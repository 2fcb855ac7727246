// SPDX-License-Identifier: GPL-2.0-only
/*
 * ring.c - per-CPU rings of 16-byte records, and the functions that write a record.
 *
 * The loader defines these constants: NCPU, RECORDS and IRQ_RECORDS (powers of two), MASK_WORDS, PIDS, OVERWRITE, the
 * offsets in kernel structures (OFF_*), and which events are wanted (WANT_*). Every collector's program begins with this
 * file. The files are joined (see _recorder.py), because bcc looks for maps and programs in the main text only, not in
 * included files.
 *
 * A ring is a slice of one mmapable array. No atomic operation is needed: programs on one CPU can only nest, because an
   interrupt ends before the interrupted program continues, and a program that has interrupted another one writes into a second,
   small ring of its CPU. */
#ifdef __BPF_OBJECT__
#include "object.h"
#else
#include "bcc.h"
#endif
#include "wastedcores.h"

#define in_order() asm volatile("" ::: "memory")
#define hide(x) asm volatile("" : "+r"(x)) /* keeps bcc from rewriting values that come from ctx */

#ifdef TYPED
#define LOAD(type, p, off) (*(volatile type *)((p) + (off)))
#else
#define LOAD(type, p, off) ({ type _v = 0; bpf_probe_read_kernel(&_v, sizeof(_v), (void *)((p) + (off))); _v; })
#endif

struct wc_cpu {       /* written by the programs (except on and t0); two cache lines */
	u64 head;     /* records written to the main ring */
	u64 limit;    /* head may advance to here before the reader's position is looked at again */
	u64 lost;
	u64 told;     /* how many of them WC_LOST records have reported */
	u64 seen;
	u64 irq_head; /* the same for the second ring */
	u64 irq_limit;
	u32 nest;
	u32 cur;      /* 1 + the pid that runs here according to the last switch; 0: not known yet */
	u64 last_load;
	u64 rq;       /* address of this CPU's runqueue, for the checker (unclaimed.c) */
	u64 extra;    /* records that are not events: names, masks, WC_LOST */
	u64 on;       /* nonzero: record. The loader writes on and t0; they are here and not in a map of their own, */
	u64 t0;       /* so that each event touches one page less */
	u64 cur_mask; /* folded affinity of the task that runs here, as it was last recorded */
	u64 own;      /* tasks of the checker itself on this CPU's runqueue, during a look (unclaimed.c) */
	u64 others;   /* other tasks there, if they are several and one may be missing elsewhere */
};

struct wc_tail {      /* written by the reader: the position up to which it has read */
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

SIZED(cpus, struct wc_cpu, NCPU, F_MMAPABLE);
SIZED(tails, struct wc_tail, NCPU, F_MMAPABLE);
ARRAY(config, struct wc_config, 1, F_MMAPABLE);
SIZED(ring, struct wc_record, NCPU * RECORDS, F_MMAPABLE);
SIZED(irq_ring, struct wc_record, NCPU * IRQ_RECORDS, F_MMAPABLE);
#define WAKERS 4096
ARRAY(wakers, struct wc_waker, WAKERS, 0);
SIZED(masks, struct wc_masks, PIDS / 1024, 0);

#define PID(p) ((u64)((p) & 0x3fffff))
#define CPU(c) ((u64)((c) & 0x1fff))

struct where {
	struct wc_cpu *c;
	u32 cpu;
	u32 nest;
	u64 now;      /* w0 without the kind and x */
};

/* Find this CPU's state and the time. A program that gets a nonzero result must call leave(). */
static __always_inline int enter(struct where *w)
{
	w->cpu = bpf_get_smp_processor_id();
	w->c = bpf_map_lookup_elem(&cpus, &w->cpu);
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
		r = bpf_map_lookup_elem(&irq_ring, &k);
	} else {
		k = (w->cpu * RECORDS) + (w->c->head & (RECORDS - 1));
		r = bpf_map_lookup_elem(&ring, &k);
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

/* Reserve room for n records; 0 if there is none. Without OVERWRITE, records that the reader has not taken are kept. */
static __always_inline int room(struct where *w, u32 n)
{
#ifndef OVERWRITE
	struct wc_tail *t;

	if (w->nest) {
		if (w->c->irq_head + n + 1 > w->c->irq_limit) {
			t = bpf_map_lookup_elem(&tails, &w->cpu);
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
		t = bpf_map_lookup_elem(&tails, &w->cpu);
		if (!t)
			return 0;
		w->c->limit = t->tail + RECORDS;
		/* after a loss, wait until an eighth of the ring is free: one long gap is better than many short ones */
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

/* Write a record and the two words of a name, which comes from the task or from a string. */
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
