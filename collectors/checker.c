// SPDX-License-Identifier: GPL-2.0-only
/*
 * checker.c - the programs of the online checker as one text, which tools/build_bpf.py compiles into checker.bpf.o.
 */
#define __BPF_OBJECT__
#include "ring.c"
#include "runqueue.c"
#include "schedtrace.c"
#include "cpu.c"
#include "snapshot.c"
#include "look.c"
#include "tally.c"
#include "unclaimed.c"
#include "decisions.c"
