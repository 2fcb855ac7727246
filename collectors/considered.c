// SPDX-License-Identifier: GPL-2.0-only
/*
 * considered.c - record the CPUs that load balancing and wakeups looked at (paper, section 4.2), with schedtrace.c.
 *
 * Each function has a handler and one program per way to attach: fentry (arguments in ctx[]) and kprobe (in registers).
 * It is compiled as one text after schedtrace.c.
 */
/* wastedcores/trace/readers/schedtrace/reader.py: FUNCTIONS */
enum function {
	SELECT_IDLE_SIBLING,
	FIND_BUSIEST_GROUP,
	FIND_BUSIEST_QUEUE,
	FIND_IDLEST_GROUP,
	FIND_IDLEST_CPU,
	SELECT_TASK_RQ_FAIR,
	LOAD_BALANCE,
};

struct wc_set {
	u64 word[MASK_WORDS];
};

struct wc_pending {	/* arguments for the return probes; the functions run with interrupts or preemption off */
	u64 task;
	u32 prev, target;
};

PERCPU(sets, struct wc_set, 1);
PERCPU(pending, struct wc_pending, 2);
SIZED(llc, struct wc_set, NCPU, 0); /* the CPUs that share a last-level cache; set by the loader */

#define COPY(dst, addr) bpf_probe_read_kernel(&(dst), sizeof(dst), (void *)(addr))

static __always_inline void emit(u32 function, u32 cpu, u64 task, u32 level, struct wc_set *set)
{
	struct where w;
	u32 pid = 0;

	if (!enter(&w))
		return;
	if (task)
		COPY(pid, task + OFF_PID);
	w.c->seen++;
	if (room(&w, 1 + MASK_WORDS)) {
		store(&w, KX(WC_CONSIDERED, MASK_WORDS),
		      CPU(cpu) | CPU(w.cpu) << 13 | PID(pid) << 26 | (u64)function << 48 | (u64)level << 56);
		for (int i = 0; i < MASK_WORDS; i++)
			store(&w, KX(WC_MASK, i), set->word[i]);
	}
	leave(&w);
}

static __always_inline struct wc_set *scratch_set(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&sets, &zero);
}

static __always_inline void load_mask(struct wc_set *set, u64 addr)
{
	for (int i = 0; i < MASK_WORDS; i++) {
		u64 word = 0;

		COPY(word, addr + 8 * i);
		set->word[i] = word;
	}
}

static __always_inline void and_mask(struct wc_set *set, u64 addr)
{
	for (int i = 0; i < MASK_WORDS; i++) {
		u64 word = 0;

		COPY(word, addr + 8 * i);
		set->word[i] &= word;
	}
}

static __always_inline u32 level_of(u64 sd)
{
	u32 level = 0;

	COPY(level, sd + OFF_SD_LEVEL);
	return level & 0xff;
}

/* kernel/sched/fair.c: find_busiest_group(env) visits every group of the domain, and of it the CPUs in env->cpus */
static __always_inline int busiest_group(u64 env)
{
	struct wc_set *set = scratch_set();
	u64 sd = 0, cpus = 0;
	u32 dst = 0;

	COPY(sd, env + OFF_ENV_SD);
	COPY(cpus, env + OFF_ENV_CPUS);
	COPY(dst, env + OFF_ENV_DST_CPU);
	if (!set || !sd)
		return 0;
	load_mask(set, sd + OFF_SD_SPAN);
	and_mask(set, cpus);
	emit(FIND_BUSIEST_GROUP, dst, 0, level_of(sd), set);
	return 0;
}

/* find_busiest_queue(env, group) visits the group's CPUs within env->cpus */
static __always_inline int busiest_queue(u64 env, u64 group)
{
	struct wc_set *set = scratch_set();
	u64 sd = 0, cpus = 0;
	u32 dst = 0;

	COPY(sd, env + OFF_ENV_SD);
	COPY(cpus, env + OFF_ENV_CPUS);
	COPY(dst, env + OFF_ENV_DST_CPU);
	if (!set || !sd || !group)
		return 0;
	load_mask(set, group + OFF_SG_SPAN);
	and_mask(set, cpus);
	emit(FIND_BUSIEST_QUEUE, dst, 0, level_of(sd), set);
	return 0;
}

/* find_idlest_group(sd, p, this_cpu) places forks and execs: CPUs of the domain on which the task may run */
static __always_inline int idlest_group(u64 sd, u64 p, u32 cpu)
{
	struct wc_set *set = scratch_set();
	u64 allowed = 0;

	COPY(allowed, p + OFF_CPUS_PTR);
	if (!set)
		return 0;
	load_mask(set, sd + OFF_SD_SPAN);
	and_mask(set, allowed);
	emit(FIND_IDLEST_GROUP, cpu, p, level_of(sd), set);
	return 0;
}

/* find_idlest_group_cpu(group, p, this_cpu) */
static __always_inline int idlest_cpu(u64 group, u64 p, u32 cpu)
{
	struct wc_set *set = scratch_set();
	u64 allowed = 0;

	COPY(allowed, p + OFF_CPUS_PTR);
	if (!set)
		return 0;
	load_mask(set, group + OFF_SG_SPAN);
	and_mask(set, allowed);
	emit(FIND_IDLEST_CPU, cpu, p, 0, set);
	return 0;
}

/* load_balance(this_cpu, this_rq, sd, idle, continue) */
static __always_inline int balance(u32 cpu, u64 sd)
{
	struct wc_set *set = scratch_set();

	if (!set)
		return 0;
	load_mask(set, sd + OFF_SD_SPAN);
	emit(LOAD_BALANCE, cpu, 0, level_of(sd), set);
	return 0;
}

static __always_inline int remember(u32 slot, u64 p, u32 prev, u32 target)
{
	struct wc_pending *n = bpf_map_lookup_elem(&pending, &slot);

	if (n) {
		n->task = p;
		n->prev = prev;
		n->target = target;
	}
	return 0;
}

static __always_inline void add_cpu(struct wc_set *set, u32 cpu)
{
	if (cpu < NCPU)
		set->word[(cpu >> 6) % MASK_WORDS] |= 1ULL << (cpu & 63);
}

/*
 * The CPUs that select_idle_sibling looked at are not all visible from outside. It always looks at the target and at the
 * previous CPU. If it chose neither, it had searched the last-level cache of the target; this is an approximation.
 */
static __always_inline int chosen(u32 slot, u32 function, u32 cpu)
{
	struct wc_pending *n = bpf_map_lookup_elem(&pending, &slot);
	struct wc_set *set = scratch_set(), *shared;

	if (!n || !set || !n->task)
		return 0;
	for (int i = 0; i < MASK_WORDS; i++)
		set->word[i] = 0;
	shared = bpf_map_lookup_elem(&llc, &n->target);
	if (function == SELECT_IDLE_SIBLING && cpu != n->prev && cpu != n->target && shared)
		for (int i = 0; i < MASK_WORDS; i++)
			set->word[i] = shared->word[i];
	add_cpu(set, n->prev);
	add_cpu(set, n->target);
	add_cpu(set, cpu);
	emit(function, cpu, n->task, 0, set);
	n->task = 0;
	return 0;
}

int fe_find_busiest_group(u64 *ctx) { return busiest_group(ctx[0]); }
int fe_find_busiest_queue(u64 *ctx) { return busiest_queue(ctx[0], ctx[1]); }
int fe_find_idlest_group(u64 *ctx) { return idlest_group(ctx[0], ctx[1], (u32)ctx[2]); }
int fe_find_idlest_cpu(u64 *ctx) { return idlest_cpu(ctx[0], ctx[1], (u32)ctx[2]); }
int fe_load_balance(u64 *ctx) { return balance((u32)ctx[0], ctx[2]); }

int kp_find_busiest_group(struct pt_regs *ctx) { return busiest_group(PT_REGS_PARM1(ctx)); }
int kp_find_busiest_queue(struct pt_regs *ctx) { return busiest_queue(PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx)); }
int kp_find_idlest_group(struct pt_regs *ctx)
{
	return idlest_group(PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx), (u32)PT_REGS_PARM3(ctx));
}
int kp_find_idlest_cpu(struct pt_regs *ctx)
{
	return idlest_cpu(PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx), (u32)PT_REGS_PARM3(ctx));
}
int kp_load_balance(struct pt_regs *ctx) { return balance((u32)PT_REGS_PARM1(ctx), PT_REGS_PARM3(ctx)); }

/* (p, prev, target) since 4.19; (p, prev_cpu, flags) */
int kp_select_idle_sibling(struct pt_regs *ctx)
{
	return remember(0, PT_REGS_PARM1(ctx), (u32)PT_REGS_PARM2(ctx), (u32)PT_REGS_PARM3(ctx));
}
int kr_select_idle_sibling(struct pt_regs *ctx) { return chosen(0, SELECT_IDLE_SIBLING, (u32)PT_REGS_RC(ctx)); }
int kp_select_task_rq_fair(struct pt_regs *ctx)
{
	return remember(1, PT_REGS_PARM1(ctx), (u32)PT_REGS_PARM2(ctx), (u32)PT_REGS_PARM2(ctx));
}
int kr_select_task_rq_fair(struct pt_regs *ctx) { return chosen(1, SELECT_TASK_RQ_FAIR, (u32)PT_REGS_RC(ctx)); }
