// SPDX-License-Identifier: GPL-2.0-only
/*
 * transitions.c - every entry into the kernel and every return: system calls, interrupts, softirqs, page faults.
 *
 * It is compiled as one text after schedtrace.c. Each transition is one record of 16 bytes. A page fault has a tracepoint
 * at its beginning only; its end is the software event of perf that counts it (mm_account_fault, mm/memory.c, since 5.9),
 * some ten ns before the return. A fault that ends with a signal has no such event.
 */
static __always_inline int transition(u64 kind, u64 what, u64 number)
{
	struct where w;

	if (!enter(&w))
		return 0;
	put(&w, KX(kind, 0), PID(current_pid(w.c)) | what << 22 | (number & 0xffffffff) << 27);
	leave(&w);
	return 0;
}

#define ENTRY(name, what, number) int name(u64 *ctx) { return transition(WC_KERNEL_ENTRY, what, number); }
#define RETURN(name, what, number) int name(u64 *ctx) { return transition(WC_KERNEL_EXIT, what, number); }

ENTRY(on_syscall, WC_IN_SYSCALL, ctx[1])
RETURN(on_syscall_done, WC_IN_SYSCALL, ctx[1])
ENTRY(on_irq, WC_IN_IRQ, ctx[0])
RETURN(on_irq_done, WC_IN_IRQ, ctx[0])
ENTRY(on_softirq, WC_IN_SOFTIRQ, ctx[0])
RETURN(on_softirq_done, WC_IN_SOFTIRQ, ctx[0])
ENTRY(on_vector, WC_IN_VECTOR, ctx[0])
RETURN(on_vector_done, WC_IN_VECTOR, ctx[0])
ENTRY(on_fault_user, WC_IN_FAULT, ctx[2] | 4) /* X86_PF_USER */
ENTRY(on_fault_kernel, WC_IN_FAULT, ctx[2] & ~4ULL)
RETURN(on_fault_done, WC_IN_FAULT, 0)
