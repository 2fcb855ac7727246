// SPDX-License-Identifier: GPL-2.0-only
/*
 * ticks.c - the tick of each busy CPU, with the frequency at which the CPU ran since its tick before.
 *
 * It is compiled as one text after schedtrace.c. The tick is an hrtimer with the function TICK_HANDLER (kernel/time/
 * tick-sched.c), so no timer of this program wakes a CPU. COUNTED is defined where the processor counts actual cycles and
 * those of a constant frequency, BASE_KHZ; both stand still while the CPU is idle (Intel's manual, volume 3, 15.5.5).
 * Elsewhere the recorder writes the frequency that the kernel tells into clocks.
 */
#ifdef WANT_TICK
struct wc_clock {
	u64 actual, base; /* counts at the tick before */
	u64 khz;          /* what the recorder read last, or 0 */
};

SIZED(clocks, struct wc_clock, NCPU, F_MMAPABLE);

#ifdef COUNTED
BPF_PERF_ARRAY(actual_cycles, NCPU);
BPF_PERF_ARRAY(base_cycles, NCPU);

static __always_inline u64 khz_since(struct wc_clock *k)
{
	struct bpf_perf_event_value actual = {}, base = {};
	u64 khz = 0;

	if (actual_cycles.perf_counter_value(CUR_CPU_IDENTIFIER, &actual, sizeof(actual)) ||
	    base_cycles.perf_counter_value(CUR_CPU_IDENTIFIER, &base, sizeof(base)))
		return 0;
	if (k->base && base.counter > k->base)
		khz = (actual.counter - k->actual) * BASE_KHZ / (base.counter - k->base);
	k->actual = actual.counter;
	k->base = base.counter;
	return khz;
}
#else
static __always_inline u64 khz_since(struct wc_clock *k)
{
	return k->khz;
}
#endif

int on_hrtimer(u64 *ctx)
{
	u64 timer = ctx[0], khz;
	struct wc_clock *k;
	struct where w;
	u32 pid;

	hide(timer);
	if (LOAD(u64, timer, OFF_TIMER_FUNCTION) != TICK_HANDLER)
		return 0;
	if (!enter(&w))
		return 0;
	k = bpf_map_lookup_elem(&clocks, &w.cpu);
	pid = current_pid(w.c);
	if (k && pid) {
		khz = khz_since(k);
		put(&w, KX(WC_TICK, 0), PID(pid) | (khz & 0xffffffff) << 22);
	}
	leave(&w);
	return 0;
}
#endif
