// SPDX-License-Identifier: GPL-2.0-only
/*
 * work_conserving.bpf.c - a scheduler for sched_ext that leaves no CPU idle while a thread that may run there waits.
 *
 * It is the core module that section 5 of "The Linux Scheduler: a Decade of Wasted Cores" (EuroSys'16) asks for. The core gives
 * runnable threads to idle CPUs and shares the cycles fairly. It takes suggestions, here where a woken thread finds its cache,
 * and follows them only as far as they keep the invariant.
 *
 * All threads that wait are in one queue, first come, first served, so no CPU has to look for work in the queues of others. The
 * kernel skips those that may not run on the CPU that asks. There are no classes of threads: a woken thread preempts nobody.
 *
 * For Linux 6.13 and later, which have these names of functions (kernel/sched/ext.c); 6.18.15 and 7.3.4 were tried:
 *	clang -target bpf -O2 -g -I/usr/include/x86_64-linux-gnu -c work_conserving.bpf.c -o work_conserving.bpf.o
 */
#include <linux/types.h>

typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef _Bool bool;

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* include/linux/sched/ext.h */
#define SCX_DSQ_LOCAL ((1ULL << 63) | 2)
#define SCX_OPS_KEEP_BUILTIN_IDLE (1ULL << 0)
#define SCX_OPS_ENQ_EXITING (1ULL << 2)
#define SCX_KICK_IDLE 1

/* the queue of all threads that wait; the built-in global one is a queue per node, so its threads could not leave their node */
#define QUEUE 0
/* what a thread of nice 0 runs while others wait; the kernel looks at it in each tick */
#define SLICE_NS 3000000ULL
#define NICE_0_WEIGHT 100

/* Only what is used. libbpf puts the running kernel's offsets into the programs. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sched_ext_entity {
	u32 weight;
};
struct cpumask {
	u64 bits[1];
};
struct task_struct {
	struct cpumask cpus_mask; /* not used; without it clang only declares cpumask, and libbpf needs its definition */
	const struct cpumask *cpus_ptr;
	struct sched_ext_entity scx;
};
#pragma clang attribute pop
struct scx_cpu_release_args;
struct bpf_iter_scx_dsq {
	u64 opaque[6];
};

/* the operations that this scheduler has, by their names; libbpf 1.1 refuses a member that the kernel lacks, even an unset one */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*update_idle)(s32 cpu, bool idle);
	void (*tick)(struct task_struct *p);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init)(void);
	u64 flags;
	char name[128];
};

s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym;
bool scx_bpf_dsq_move_to_local(u64 dsq_id) __ksym;
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle) __ksym;
s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags) __ksym;
void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;
u32 scx_bpf_reenqueue_local(void) __ksym;
const struct cpumask *scx_bpf_get_idle_cpumask(void) __ksym;
void scx_bpf_put_idle_cpumask(const struct cpumask *mask) __ksym;
bool bpf_cpumask_empty(const struct cpumask *mask) __ksym;
int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __ksym;
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;
char LICENSE[] SEC("license") = "GPL";

/* Round robin; a thread's weight makes its turn longer or shorter. */
static void insert(struct task_struct *p, u64 queue, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, queue, SLICE_NS * p->scx.weight / NICE_0_WEIGHT, enq_flags);
}

/* Wake an idle CPU on which this thread may run. The kernel gives each idle CPU to one caller only. */
static void wake_a_cpu_for(struct task_struct *p)
{
	s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* A thread wakes up. The suggestion is the kernel's: its previous CPU, an idle core, or one that shares the cache. */
SEC("struct_ops/select_cpu")
s32 BPF_PROG(select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = 0;
	/* without the flags of the wakeup: SCX_WAKE_SYNC would put the thread behind its waker while other CPUs are idle */
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, 0, &is_idle);

	if (is_idle)
		insert(p, SCX_DSQ_LOCAL, 0);
	return cpu;
}

/* A thread has to wait: no CPU was idle when it woke up, its turn is over, or something else took its CPU. */
SEC("struct_ops/enqueue")
void BPF_PROG(enqueue, struct task_struct *p, u64 enq_flags)
{
	insert(p, QUEUE, enq_flags);
	wake_a_cpu_for(p);
}

/* A CPU has nothing to run: it takes the first thread that may run there. */
SEC("struct_ops/dispatch")
void BPF_PROG(dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

/*
 * A CPU is idle now, and enqueue() sees it from here on. It looks once more for a thread that came after it had looked and before
 * enqueue() could see it. The kernel does not call this again if there is nothing that may run here.
 */
SEC("struct_ops/update_idle")
void BPF_PROG(update_idle, s32 cpu, bool idle)
{
	if (idle && scx_bpf_dsq_nr_queued(QUEUE) > 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/*
 * The invariant is checked at every tick of a busy CPU, and mended. The kernel puts a thread into the queue only when enqueue()
 * returns, so a CPU that becomes idle within enqueue() still misses it. And a CPU that was woken for one thread may first find
 * another one.
 */
SEC("struct_ops/tick")
void BPF_PROG(tick, struct task_struct *running)
{
	const struct cpumask *idle;
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	bool none;

	if (scx_bpf_dsq_nr_queued(QUEUE) <= 0)
		return;
	idle = scx_bpf_get_idle_cpumask();
	none = bpf_cpumask_empty(idle);
	scx_bpf_put_idle_cpumask(idle);
	if (none)
		return;
	bpf_iter_scx_dsq_new(&it, QUEUE, 0);
	while ((p = bpf_iter_scx_dsq_next(&it)))
		wake_a_cpu_for(p);
	bpf_iter_scx_dsq_destroy(&it);
}

/* A real-time thread takes the CPU: what was to run there next may run elsewhere. */
SEC("struct_ops/cpu_release")
void BPF_PROG(cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local();
}

/* The queue is nobody's, so nothing has to be done; without these two the kernel ends a scheduler when a CPU comes or goes. */
SEC("struct_ops/cpu_online")
void BPF_PROG(cpu_online, s32 cpu)
{
}

SEC("struct_ops/cpu_offline")
void BPF_PROG(cpu_offline, s32 cpu)
{
}

SEC("struct_ops.s/init")
s32 BPF_PROG(init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SEC(".struct_ops")
struct sched_ext_ops work_conserving = {
	.select_cpu = (void *)select_cpu,
	.enqueue = (void *)enqueue,
	.dispatch = (void *)dispatch,
	.update_idle = (void *)update_idle,
	.tick = (void *)tick,
	.cpu_release = (void *)cpu_release,
	.cpu_online = (void *)cpu_online,
	.cpu_offline = (void *)cpu_offline,
	.init = (void *)init,
	/* the kernel's own list of idle CPUs beside update_idle(); threads that exit come through enqueue(), too, instead of waiting
	 * for the CPU on which they were */
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_EXITING,
	.name = "work_conserving",
};
