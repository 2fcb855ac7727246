/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The contract between the collectors and the package: the layout of a record and of a file.
 * tests/collectors/test_contract.py compares this header with wastedcores/trace/readers/schedtrace/reader.py.
 *
 * A file is one line of JSON (the header) and then blocks: each a struct wc_block and its payload.
 */
#ifndef WASTEDCORES_H
#define WASTEDCORES_H

#define WC_VERSION 1

/* One event: 16 bytes, in the buffer and in the file. */
struct wc_record {
	u64 w0; /* bits 0-47: ns since the header's t0_ns; 48-52: the kind; 53-63: x (see the kinds) */
	u64 w1; /* see the kinds */
};

/* Kinds, with the fields of w1 from bit 0 up, then x. pid: 22 bits (PID_MAX_LIMIT is 2^22); cpu: 13 bits. */
#define WC_NR_RUNNING	1  /* cpu:16 nr:24 change:24(signed) */
#define WC_SWITCH	2  /* prev_pid:22 next_pid:22 next_prio:8 prev_prio:8; x: index into "RSDTtXZPI":10, preempted:1 */
#define WC_WAKEUP	3  /* pid:22 by_pid:22 cpu:13 src_cpu_low:7; x: src_cpu_high:6 */
#define WC_WAKEUP_NEW	4  /* as WC_WAKEUP */
#define WC_MIGRATE	5  /* pid:22 src_cpu:13 cpu:13 by_pid_low:16; x: by_pid_high:6 op:3 */
#define WC_FORK		6  /* pid:22 by_pid:22 */
#define WC_EXEC		7  /* pid:22 old_pid:22; two WC_NAME follow */
#define WC_EXIT		8  /* pid:22 prio:8 */
#define WC_CPU_IDLE	9  /* cpu:16 state:32(signed) */
#define WC_FREQUENCY	10 /* cpu:16 khz:32 */
#define WC_LOAD		11 /* cpu:16 load:48 */
#define WC_AFFINITY	12 /* pid:22 words:10; that many WC_MASK follow */
#define WC_RENAME	13 /* pid:22; two WC_NAME follow */
#define WC_NAME		14 /* 8 bytes of comm; x: 0 first half, 1 second */
#define WC_MASK		15 /* 64 bits of a CPU mask; x: which word */
#define WC_LOST		16 /* count:64 of events this CPU dropped just before */
#define WC_CONSIDERED	17 /* cpu:13 src_cpu:13 pid:22 function:8 level:8; x: words; that many WC_MASK follow */
#define WC_CPU_ONLINE	18 /* cpu:16 online:1 */
#define WC_THROTTLE	19 /* pid:22 cgroup_low:42; x: cgroup_high:11; on the CPU that recorded it */
#define WC_UNTHROTTLE	20 /* pid:22 cpu:13 */
#define WC_KERNEL_ENTRY	21 /* pid:22 what:5 number:32; on the CPU that recorded it */
#define WC_KERNEL_EXIT	22 /* as WC_KERNEL_ENTRY; the number of a system call is what it returns */
#define WC_TICK		23 /* pid:22 khz:32, 0 if unknown; on the CPU that recorded it */

/* WC_MIGRATE op */
#define WC_OP_OTHER	0
#define WC_OP_WAKEUP	1
#define WC_OP_FORK	2
#define WC_OP_BALANCE	3

/* what of WC_KERNEL_ENTRY and WC_KERNEL_EXIT, and their numbers */
#define WC_IN_SYSCALL	0 /* of the system call */
#define WC_IN_IRQ	1 /* of the interrupt */
#define WC_IN_SOFTIRQ	2 /* of the vector, include/linux/interrupt.h */
#define WC_IN_VECTOR	3 /* of an x86 vector that is no interrupt of a device: timer, reschedule, ... */
#define WC_IN_FAULT	4 /* x86's error code */

/* One task and its runqueue as the capture found them; in a WC_BLOCK_TASKS payload the mask's words follow. */
struct wc_task {
	u64 ts;       /* ns since t0_ns; read before the state */
	u32 pid;
	u32 tgid;
	u32 cpu;
	u32 rq_nr;    /* nr_running of that CPU's runqueue */
	u16 state;    /* 0 sleeping, 1 waiting, 2 running */
	u16 prio;
	u32 allowed;  /* nr_cpus_allowed */
	char comm[16];
};

/* Block types */
#define WC_BLOCK_EVENTS		1 /* records of one CPU, oldest first */
#define WC_BLOCK_TASKS		2 /* the state at the start */
#define WC_BLOCK_COUNTERS	3 /* struct wc_counters, one per possible CPU; about once a second */
#define WC_BLOCK_END		4 /* JSON: why the capture ended; absent if the file was cut */
#define WC_BLOCK_DECISIONS	5 /* JSON: how, refused, sampled, lost, rows of [ns, cpu, src_cpu, op, moved, text] */
#define WC_BLOCK_MAGIC		0x31424357 /* "WCB1" */

struct wc_block {
	u32 magic;
	u16 type;
	u16 cpu;
	u32 bytes;    /* of payload */
	u32 round;    /* the same for all blocks of one drain of all CPUs */
	u64 now;      /* ns since t0_ns when this drain began: only blocks of the next drain may have older events */
	u64 seq;      /* number of the first record on this CPU */
	u64 lost;     /* events this CPU has lost so far */
};

struct wc_counters {
	u64 seen;     /* events the probes wanted to record on this CPU */
	u64 written;  /* those of them that were written, each with its WC_NAME or WC_MASK records */
	u64 lost;     /* those that found no room; seen = written + lost, and each is counted separately */
	u64 overwritten; /* records that a flight recorder has overwritten */
};
#endif
