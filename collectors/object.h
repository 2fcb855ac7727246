/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * object.h - what the programs need when clang compiles them into an object for all machines; bcc.h is for bcc.
 *
 * libbpf replaces each offset (OFF_*) by that of the running kernel when it loads the object (CO-RE), so only the members
 * that are read are declared here. A member that does not exist there is read only where HAS() has asked for it: the
 * verifier knows the answer and drops the code behind it. _object.py writes wc_settings and the sizes of the maps.
 */
#include <linux/types.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#undef bpf_map_lookup_elem /* none of its results outlives a program */
/* a function that the verifier walks once for all its callers */
#define SEPARATE __attribute__((noinline))

#define F_MMAPABLE BPF_F_MMAPABLE
#define ARRAY(_name, _type, _n, _flags)			\
	struct {					\
		__uint(type, BPF_MAP_TYPE_ARRAY);	\
		__uint(max_entries, _n);		\
		__uint(map_flags, _flags);		\
		__type(key, u32);			\
		__type(value, _type);			\
	} _name SEC(".maps")
#define SIZED(name, type, n, flags) ARRAY(name, type, 1, flags) /* _object.py tells the size */
#define PERCPU(_name, _type, _n)			\
	struct {					\
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);	\
		__uint(max_entries, _n);		\
		__type(key, u32);			\
		__type(value, _type);			\
	} _name SEC(".maps")

char LICENSE[] SEC("license") = "GPL";
/* of the sources; _object.py compares it. libbpf reads no section of this name. */
const char wc_sources[] __attribute__((section(".comment.wastedcores"), used)) = SOURCES;

/* Constants of the machine; the verifier knows them, because the kernel freezes this map. _object.py: SETTINGS */
const volatile struct {
	u32 ncpu, records, mask_words, pids, nonline, tells_state;
	u32 want_nr_running, want_affinity, want_throttle, detached_load;
} wc_settings = {};

#define NCPU wc_settings.ncpu
#define RECORDS wc_settings.records
#define MASK_WORDS wc_settings.mask_words
#define PIDS wc_settings.pids
#define NONLINE wc_settings.nonline
#define TELLS_STATE wc_settings.tells_state
#define WANT_NR_RUNNING wc_settings.want_nr_running
#define WANT_AFFINITY wc_settings.want_affinity
#define WANT_THROTTLE wc_settings.want_throttle
#define DETACHED_LOAD wc_settings.detached_load
#define TYPED 1
#define OVERWRITE 1
#define IRQ_RECORDS 2048
#define MOST_WORDS 16	/* up to 1024 CPUs */
#define STEPS 256
#define SWITCH_PREV 1
#define SWITCH_STATE 3
#define CPUHP_ACTIVE ((s32)bpf_core_enum_value(enum cpuhp_state, CPUHP_AP_ACTIVE))

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct css { void *cgroup; };
struct list { void *next; };
struct load { unsigned long load_avg; };
enum cpuhp_state { CPUHP_AP_ACTIVE = 1 };

struct task_group { struct css css; void *cfs_rq; unsigned long shares; struct { long counter; } load_avg; };
struct cfs_rq {
	struct load avg;
	void *rq, *tg;
	unsigned int h_nr_queued, h_nr_runnable;
};
struct rq {
	unsigned int nr_running;
	int cpu, online;
	void *curr, *sd;
	struct cfs_rq cfs;
	struct list cfs_tasks;
	u64 clock;
};
struct rq___v6_18 { void *__curr; };
struct sched_entity {
	struct load avg;
	void *parent, *cfs_rq;
	struct list group_node;
	unsigned char sched_delayed;
};
struct task_struct {
	int pid, tgid;
	unsigned int __state;
	struct { unsigned int cpu; } thread_info;
	int prio, on_rq, on_cpu, nr_cpus_allowed;
	char comm[16];
	void *cpus_ptr, *signal, *sched_task_group, *thread_pid;
	struct sched_entity se;
	struct { unsigned long long run_delay, last_queued; } sched_info;
	struct list thread_node;
	_Bool throttled;
	struct list wake_entry;
};
struct task_struct___v5_13 { long state; };
struct task_struct___v5_15 { unsigned int cpu; };
struct signal_struct { struct list thread_head; };
struct upid { int nr; };
struct pid { unsigned int level; struct upid numbers[1]; };
struct cgroup { void *kn; };
struct kernfs_node { u64 id; };
struct __call_single_data { struct { unsigned int u_flags; } node; };
struct sched_domain {
	void *parent, *groups;
	int level;
	char *name;
	unsigned long last_balance;
	unsigned int balance_interval, nr_balance_failed, span_weight;
	unsigned long span[0];
};
struct sched_group { void *next, *sgc; unsigned long cpumask[0]; };
struct sched_group_capacity { unsigned long capacity; };
struct lb_env { long imbalance; };
#pragma clang attribute pop

#define AT(type, member) ((u64)bpf_core_field_offset(struct type, member))
#define EXISTS(type, member) bpf_core_field_exists(struct type, member)
#define EITHER(type, member, old, older) (EXISTS(type, member) ? AT(type, member) : AT(old, older))

#define OFF_RQ_NR AT(rq, nr_running)
#define OFF_RQ_CPU AT(rq, cpu)
#define OFF_RQ_ONLINE AT(rq, online)
#define OFF_RQ_CURR EITHER(rq, curr, rq___v6_18, __curr)
#define OFF_RQ_CFS AT(rq, cfs)
#define OFF_RQ_CFS_TASKS AT(rq, cfs_tasks)
#define OFF_RQ_CLOCK AT(rq, clock)
#define OFF_RQ_SD AT(rq, sd)
#define OFF_CFS_LOAD AT(cfs_rq, avg.load_avg)
#define OFF_CFS_RQ AT(cfs_rq, rq)
#define OFF_CFS_TG AT(cfs_rq, tg)
#define OFF_CFS_QUEUED AT(cfs_rq, h_nr_queued)
#define OFF_CFS_RUNNABLE AT(cfs_rq, h_nr_runnable)
#define OFF_PID AT(task_struct, pid)
#define OFF_TGID AT(task_struct, tgid)
#define OFF_STATE EITHER(task_struct, __state, task_struct___v5_13, state)
#define OFF_TASK_CPU EITHER(task_struct, thread_info.cpu, task_struct___v5_15, cpu)
#define OFF_PRIO AT(task_struct, prio)
#define OFF_ON_RQ AT(task_struct, on_rq)
#define OFF_ON_CPU AT(task_struct, on_cpu)
#define OFF_COMM AT(task_struct, comm)
#define OFF_CPUS_PTR AT(task_struct, cpus_ptr)
#define OFF_THREAD_PID AT(task_struct, thread_pid)
#define OFF_PID_LEVEL AT(pid, level)
#define OFF_PID_NUMBERS AT(pid, numbers)
#define OFF_NR_ALLOWED AT(task_struct, nr_cpus_allowed)
#define OFF_TASK_CFS AT(task_struct, se.cfs_rq)
#define OFF_GROUP_NODE AT(task_struct, se.group_node)
#define OFF_DELAYED AT(task_struct, se.sched_delayed)
#define OFF_TASK_LOAD AT(task_struct, se.avg.load_avg)
#define OFF_SE AT(task_struct, se)
#define OFF_SE_PARENT AT(sched_entity, parent)
#define OFF_SE_CFS AT(sched_entity, cfs_rq)
#define OFF_TG_LOAD AT(task_group, load_avg)
#define OFF_TG_SHARES AT(task_group, shares)
#define OFF_RUN_DELAY AT(task_struct, sched_info.run_delay)
#define OFF_LAST_QUEUED AT(task_struct, sched_info.last_queued)
#define OFF_SIGNAL AT(task_struct, signal)
#define OFF_THREAD_NODE AT(task_struct, thread_node)
#define OFF_THREAD_HEAD AT(signal_struct, thread_head)
#define OFF_THROTTLED AT(task_struct, throttled)
#define OFF_SCHED_GROUP AT(task_struct, sched_task_group)
#define OFF_GROUP_CGROUP AT(task_group, css.cgroup)
#define OFF_GROUP_CFS AT(task_group, cfs_rq)
#define OFF_CGROUP_KN AT(cgroup, kn)
#define OFF_KN_ID AT(kernfs_node, id)
#define OFF_WAKE_ENTRY AT(task_struct, wake_entry)
#define OFF_CSD_FLAGS AT(__call_single_data, node.u_flags)
#define OFF_SD_PARENT AT(sched_domain, parent)
#define OFF_SD_GROUPS AT(sched_domain, groups)
#define OFF_SD_LEVEL AT(sched_domain, level)
#define OFF_SD_NAME AT(sched_domain, name)
#define OFF_SD_LAST AT(sched_domain, last_balance)
#define OFF_SD_INTERVAL AT(sched_domain, balance_interval)
#define OFF_SD_FAILED AT(sched_domain, nr_balance_failed)
/* some BTF (seen on 6.18) lacks the flexible array at the end of the structure: it is the next aligned long */
#define OFF_SD_SPAN (EXISTS(sched_domain, span) ? AT(sched_domain, span) : (AT(sched_domain, span_weight) + 4 + 7) & ~7ULL)
#define OFF_SG_NEXT AT(sched_group, next)
#define OFF_SG_SGC AT(sched_group, sgc)
#define OFF_SG_SPAN AT(sched_group, cpumask)
#define OFF_SGC_CAPACITY AT(sched_group_capacity, capacity)
#define OFF_ENV_IMBALANCE AT(lb_env, imbalance)

/* those members that a kernel may lack, by their configuration and release */
#define HAS(offset) HAS_##offset
#define HAS_OFF_RQ_ONLINE EXISTS(rq, online)
#define HAS_OFF_RQ_SD EXISTS(rq, sd)
#define HAS_OFF_CFS_LOAD EXISTS(cfs_rq, avg.load_avg)
#define HAS_OFF_CFS_RQ EXISTS(cfs_rq, rq)
#define HAS_OFF_CFS_TG EXISTS(cfs_rq, tg)
#define HAS_OFF_CFS_QUEUED EXISTS(cfs_rq, h_nr_queued)
#define HAS_OFF_CFS_RUNNABLE EXISTS(cfs_rq, h_nr_runnable)
#define HAS_OFF_DELAYED EXISTS(task_struct, se.sched_delayed)
#define HAS_OFF_TASK_LOAD EXISTS(task_struct, se.avg.load_avg)
#define HAS_OFF_SE_PARENT EXISTS(sched_entity, parent)
#define HAS_OFF_TG_LOAD EXISTS(task_group, load_avg)
#define HAS_OFF_RUN_DELAY EXISTS(task_struct, sched_info.run_delay)
#define HAS_OFF_LAST_QUEUED EXISTS(task_struct, sched_info.last_queued)
#define HAS_OFF_THREAD_NODE EXISTS(task_struct, thread_node)
#define HAS_OFF_THREAD_HEAD EXISTS(signal_struct, thread_head)
#define HAS_OFF_THREAD_PID EXISTS(task_struct, thread_pid)
#define HAS_OFF_THROTTLED EXISTS(task_struct, throttled)
#define HAS_OFF_SCHED_GROUP EXISTS(task_struct, sched_task_group)
#define HAS_OFF_GROUP_CGROUP EXISTS(task_group, css.cgroup)
#define HAS_OFF_GROUP_CFS EXISTS(task_group, cfs_rq)
#define HAS_OFF_SD_NAME EXISTS(sched_domain, name)
#define HAS_OFF_SD_SPAN (EXISTS(sched_domain, span) || EXISTS(sched_domain, span_weight))
#define HAS_OFF_SG_SPAN EXISTS(sched_group, cpumask)
#define HAS_OFF_ENV_IMBALANCE EXISTS(lb_env, imbalance)

/* where each program goes; the functions of the load balancer had other names before 6.10, which _object.py knows */
#define ON(section, function) SEC(section) int function(u64 *ctx)
ON("tp_btf/sched_update_nr_running_tp", on_nr_running);
ON("tp_btf/sched_switch", on_switch);
ON("tp_btf/sched_wakeup", on_wakeup);
ON("tp_btf/csd_queue_cpu", on_queued);
ON("tp_btf/sched_waking", on_waking);
ON("tp_btf/sched_wakeup_new", on_wakeup_new);
ON("tp_btf/sched_migrate_task", on_migrate);
ON("tp_btf/sched_process_fork", on_fork);
ON("tp_btf/sched_process_exec", on_exec);
ON("tp_btf/task_rename", on_rename);
ON("tp_btf/sched_process_exit", on_exit);
ON("tp_btf/cpu_frequency", on_frequency);
ON("tp_btf/cpuhp_enter", on_cpu_leaves);
ON("tp_btf/cpuhp_exit", on_cpu_joins);
ON("tp_btf/cpu_idle", on_cpu_idle);
ON("tp_btf/pelt_cfs_tp", on_load);
ON("tp_btf/sched_migrate_task", watch_migrate);
ON("tp_btf/sched_wakeup_new", watch_new);
ON("tp_btf/sched_process_exit", watch_exit);
ON("tp_btf/sched_update_nr_running_tp", watch_nr);
ON("fentry/sched_balance_rq", fe_load_balance);
ON("fexit/sched_balance_rq", fx_load_balance);
ON("fexit/sched_balance_find_src_group", fx_find_busiest_group);
struct iter_task;
SEC("iter/task") int snapshot(struct iter_task *ctx);
SEC("iter/task") int own_leaders(struct iter_task *ctx);
SEC("iter/task") int delays(struct iter_task *ctx);
SEC("iter/task") int domains(struct iter_task *ctx);
SEC("perf_event") int on_timer(void *ctx);
SEC("perf_event") int on_sample(void *ctx);
SEC("kprobe") int kp_load_balance(struct pt_regs *ctx);
SEC("kretprobe") int kr_load_balance(struct pt_regs *ctx);
SEC("kretprobe") int kr_find_busiest_group(struct pt_regs *ctx);
