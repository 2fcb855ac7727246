/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bcc.h - what the programs need when bcc compiles them on the machine where they run; object.h is for clang.
 *
 * _bpf.py defines every constant: it has read the offsets (OFF_*) from the kernel's type information.
 */
#include <uapi/linux/ptrace.h>

#define ARRAY(name, type, n, flags) BPF_F_TABLE("array", u32, type, name, n, flags)
#define SIZED(name, type, n, flags) BPF_F_TABLE("array", u32, type, name, n, flags)
#define PERCPU(name, type, n) BPF_F_TABLE("percpu_array", u32, type, name, n, 0)

/* a function that the verifier walks once for all its callers; bcc cannot make one */
#define SEPARATE static __always_inline

#define F_MMAPABLE 1024
#define ABSENT 0x7fffffff /* the offset of a member that this kernel does not have */
#define HAS(offset) ((offset) != ABSENT)
