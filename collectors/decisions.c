// SPDX-License-Identifier: GPL-2.0-only
/*
 * decisions.c - what the load balancer looked at in the 20 ms after a violation (paper, section 4.1), and how it ended.
 *
 * An iterator reads the domains of each CPU, the loads of their groups' CPUs, and the marks that load_balance() leaves in
 * a domain. It works without any probe. Where the kernel allows it, load_balance() and find_busiest_group() are probed, too.
 * This file is compiled as one text after unclaimed.c.
 */
#define LEVELS 8	/* domains of a CPU that are read */
#define SD_GROUPS 16	/* groups of a domain that are read */
#define ASKS 8192	/* calls that are kept */

struct wc_view {	/* one domain of one CPU; collectors/_decisions.py: VIEW */
	u32 cpu, depth, nr, has_domain;
	u64 load;	/* cfs load_avg of the CPU's runqueue */
	u64 last_balance;
	u32 interval, failed, level, groups, pulled, spare;
	char name[16];
	u64 capacity[SD_GROUPS];
	u64 span[SD_GROUPS][MOST_WORDS];
};

struct wc_ask {		/* one call; collectors/_decisions.py: ASK */
	u64 ts;
	u64 imbalance;
	u32 cpu, by_cpu, idle, level;
	u32 failed_before, failed_after, goes_on;
	s32 moved, busiest, spare;	/* busiest: 1 there was one, 0 balanced, -1 not known */
};

struct wc_asking {	/* a call under way: it runs with preemption off, and calls do not nest */
	u64 sd, goes_on, imbalance;
	u32 cpu, idle, failed;
	s32 busiest;
};

struct wc_asked {
	u64 number;
};

PERCPU(views, struct wc_view, 1);
PERCPU(asking, struct wc_asking, 1);
ARRAY(asks, struct wc_ask, ASKS, F_MMAPABLE);
ARRAY(asked, struct wc_asked, 1, F_MMAPABLE);

/* An iterator over all tasks that writes a domain for each of the first NCPU * LEVELS of them: their number chooses it. */
int domains(struct iter_task *ctx)
{
	u64 meta = ctx->meta, p = ctx->task, seq = 0, n = 0, rq = 0, sd = 0, group = 0, first, sgc;
	u32 zero = 0, cpu, depth;
	struct wc_view *v = bpf_map_lookup_elem(&views, &zero);
	struct wc_watched *w;
	struct wc_cpu *c;

	hide(meta);
	hide(p);
	if (!p || !v || !HAS(OFF_RQ_SD) || !HAS(OFF_SD_SPAN) || !HAS(OFF_SG_SPAN))
		return 0;
	seq = *(volatile u64 *)meta;
	n = *(volatile u64 *)(meta + 16);	/* bpf_iter_meta.seq_num */
	cpu = n / LEVELS;
	depth = n % LEVELS;
	c = bpf_map_lookup_elem(&cpus, &cpu);
	w = bpf_map_lookup_elem(&watched, &cpu);
	if (!c || !w || !c->rq)
		return 0;
	rq = c->rq;
	COPY(sd, rq + OFF_RQ_SD);
	for (int i = 0; i < LEVELS; i++)
		if (i < depth && sd)
			COPY(sd, sd + OFF_SD_PARENT);
	if (!sd && depth)
		return 0;
	v->cpu = cpu;
	v->depth = depth;
	v->has_domain = sd != 0;
	v->groups = 0;
	v->pulled = w->pulled;
	COPY(v->nr, rq + OFF_RQ_NR);
	COPY(v->load, rq + OFF_RQ_CFS + OFF_CFS_LOAD);
	if (sd) {
		COPY(v->last_balance, sd + OFF_SD_LAST);
		COPY(v->interval, sd + OFF_SD_INTERVAL);
		COPY(v->failed, sd + OFF_SD_FAILED);
		COPY(v->level, sd + OFF_SD_LEVEL);
		__builtin_memset(v->name, 0, sizeof(v->name));
		if (HAS(OFF_SD_NAME)) {
			COPY(group, sd + OFF_SD_NAME);
			bpf_probe_read_kernel_str(v->name, sizeof(v->name), (void *)group);
		}
		COPY(group, sd + OFF_SD_GROUPS);
		first = group;
		for (int i = 0; i < SD_GROUPS; i++) {
			if (!group)
				break;
			sgc = 0;
			COPY(sgc, group + OFF_SG_SGC);
			v->capacity[i] = 0;
			COPY(v->capacity[i], sgc + OFF_SGC_CAPACITY);
			bpf_probe_read_kernel(v->span[i], 8 * MASK_WORDS, (void *)(group + OFF_SG_SPAN));
			v->groups = i + 1;
			COPY(group, group + OFF_SG_NEXT);
			if (group == first)
				break;
		}
	}
	hide(seq);
	bpf_seq_write((void *)seq, v, sizeof(*v));
	return 0;
}

/* load_balance(this_cpu, this_rq, sd, idle, continue_balancing) begins */
static __always_inline int begins(u32 cpu, u64 sd, u32 idle, u64 goes_on)
{
	u32 zero = 0;
	struct wc_asking *a = bpf_map_lookup_elem(&asking, &zero);

	if (!a)
		return 0;
	a->sd = sd;
	a->cpu = cpu;
	a->idle = idle;
	a->goes_on = goes_on;
	a->imbalance = 0;
	a->busiest = -1;
	COPY(a->failed, sd + OFF_SD_FAILED);
	return 0;
}

static __always_inline int ends(s32 moved)
{
	u32 zero = 0, i;
	struct wc_asking *a = bpf_map_lookup_elem(&asking, &zero);
	struct wc_asked *n = bpf_map_lookup_elem(&asked, &zero);
	struct wc_ask *out;

	if (!a || !n || !a->sd)
		return 0;
	i = __sync_fetch_and_add(&n->number, 1);
	out = bpf_map_lookup_elem(&asks, &i);	/* NULL once all places are taken */
	if (!out)
		return 0;
	out->ts = bpf_ktime_get_ns();
	out->cpu = a->cpu;
	out->by_cpu = bpf_get_smp_processor_id();
	out->idle = a->idle;
	out->moved = moved;
	out->busiest = a->busiest;
	out->imbalance = a->imbalance;
	out->failed_before = a->failed;
	COPY(out->failed_after, a->sd + OFF_SD_FAILED);
	COPY(out->level, a->sd + OFF_SD_LEVEL);
	COPY(out->goes_on, a->goes_on);
	a->sd = 0;
	return 0;
}

/* find_busiest_group(env) ends */
static __always_inline int found(u64 group, u64 env)
{
	u32 zero = 0;
	struct wc_asking *a = bpf_map_lookup_elem(&asking, &zero);

	if (!a)
		return 0;
	a->busiest = group != 0;
	if (env && HAS(OFF_ENV_IMBALANCE))
		COPY(a->imbalance, env + OFF_ENV_IMBALANCE);
	return 0;
}

int fe_load_balance(u64 *ctx) { return begins((u32)ctx[0], ctx[2], (u32)ctx[3], ctx[4]); }
int fx_load_balance(u64 *ctx) { return ends((s32)ctx[5]); }
int fx_find_busiest_group(u64 *ctx) { return found(ctx[1], ctx[0]); }

int kp_load_balance(struct pt_regs *ctx)
{
	return begins((u32)PT_REGS_PARM1(ctx), PT_REGS_PARM3(ctx), (u32)PT_REGS_PARM4(ctx), PT_REGS_PARM5(ctx));
}
int kr_load_balance(struct pt_regs *ctx) { return ends((s32)PT_REGS_RC(ctx)); }
int kr_find_busiest_group(struct pt_regs *ctx) { return found(PT_REGS_RC(ctx), 0); }
