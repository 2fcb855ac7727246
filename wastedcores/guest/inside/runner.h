/* What the parts of the guest's runner share. It runs inside of a guest, as root, from an initramfs. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>

/* ops: the numbers of wastedcores/workload/ops.py */
enum {
    OP_EXIT, OP_COMPUTE, OP_COMPUTE_EXP, OP_SLEEP, OP_SLEEP_EXP, OP_LOOP, OP_LOOP_BARRIER, OP_BARRIER, OP_LOCK,
    OP_UNLOCK, OP_POST, OP_WAIT, OP_FORK, OP_WAIT_CHILDREN, OP_AFFINITY, OP_NICE, OP_YIELD, OP_MARK, OP_EXEC,
    OP_SIGNAL, OP_CATCH, OP_WAIT_SIGNAL, OP_TIMER, OP_SLEEP_JIFFIES, OP_TOUCH, OP_FLUSH, OP_SHEPHERD, OP_SESSION,
    OP_POLICY
};
enum { MODE_SPIN, MODE_BLOCK, MODE_SPIN_BLOCK };

struct row { int64_t op, a, b, c, d; };
struct spec {
    int number, group, nice, cpu, daemon, mask, rows;
    int64_t start_ns;
    char comm[16];
    struct row *row;
};
/* each object that tasks wait for; it lies in memory that all processes share */
struct barrier { volatile int count, generation, waiters, stopped; int parties; };
struct lock { volatile int state; };
struct semaphore {
    volatile int value, waiters, head, tail;
    volatile int64_t next_ns;
    int ends[2]; /* of the pipe on which its waiters sleep, if some posts wake synchronously; else 0 */
};
struct shared {
    volatile int left;        /* tasks that live and are no daemons */
    volatile int next_number; /* of the next task that is forked */
    int64_t start_ns;         /* of the workload */
    struct barrier *barrier;
    struct lock *lock;
    struct semaphore *semaphore;
};
struct job {
    uint64_t seed;
    int64_t limit_ns;
    int tops, tasks, templates, barriers, locks, semaphores, masks, texts, sessions, steps;
    struct spec *task, *template;
    cpu_set_t *mask;
    char **mask_text, **text;
    struct { int64_t at_ns; int cpu, online; } *step;
};

extern struct job job;
extern struct shared *shared;
extern cpu_set_t all_cpus;

/* read.c */
void read_job(const char *path);
void parse_cpus(const char *text, cpu_set_t *set);
/* run.c */
void start_tasks(void);
int64_t now_ns(void);
void sleep_until(int64_t ns);
int futex_wait(volatile int *at, int value, int64_t timeout_ns);
void futex_wake(volatile int *at, int most);
/* record.c: tracing, and sending files to the host */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
int put(const char *path, const char *text);
void mark(const char *format, ...) __attribute__((format(printf, 1, 2)));
void send_matching(const char *pattern);
void send_file(const char *path);
void tracing(const char *events, const char *buffer_kb);
void tracing_on(int on);
