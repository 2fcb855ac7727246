/* Runs the tasks of a job: each is a process or a thread that executes its rows, with the draws of the replay. */
#include "runner.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "wait.h"

cpu_set_t all_cpus;

struct task {
    const struct spec *spec;
    struct task *parent; /* of a thread */
    uint64_t random;
    int64_t slot[4], started_ns;
    int processes, thread, place;
    volatile int threads, lasting; /* threads that live, and those of them that are no daemons */
};

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

void sleep_until(int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0) == EINTR)
        ;
}

int futex_wait(volatile int *at, int value, int64_t timeout_ns)
{
    struct timespec t = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    return syscall(SYS_futex, at, FUTEX_WAIT, value, timeout_ns < 0 ? 0 : &t, 0, 0);
}

void futex_wake(volatile int *at, int most)
{
    syscall(SYS_futex, at, FUTEX_WAKE, most, 0, 0, 0);
}

/* splitmix64 (docs/replay-semantics.md, section 2) */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

static uint64_t draw(struct task *t)
{
    return mix(t->random += 0x9E3779B97F4A7C15ULL);
}

static int64_t uniform(struct task *t, int64_t low, int64_t high)
{
    return low == high ? low : low + (int64_t)(draw(t) % (uint64_t)(high - low + 1));
}

static int64_t exponential(struct task *t, int64_t mean, int64_t cap, int64_t floor)
{
    double u = ((draw(t) >> 11) + 0.5) * 0x1p-53;
    int64_t length = (int64_t)(-(double)mean * log(u));
    return length < floor ? floor : length > cap ? cap : length;
}

/* A virtual CPU executes one instruction per virtual nanosecond. A round of the loop has 32 of them, in 111 bytes: aligned, it lies
   within a page, because the emulator takes half as long for a loop that crosses no page. */
static void compute(int64_t ns)
{
    long rounds = ns / 32;
    if (rounds < 1)
        return;
#define FOUR "add $1,%%rax\n\txor %%rax,%%rcx\n\tadd %%rcx,%%rdx\n\tadd $3,%%rsi\n\t"
    asm volatile(".p2align 7\n1:\n\t" FOUR FOUR FOUR FOUR FOUR FOUR FOUR "add $1,%%rax\n\txor %%rax,%%rcx\n\tsub $1,%0\n\tjnz 1b"
                 : "+r"(rounds)::"rax", "rcx", "rdx", "rsi", "cc");
}

static void bind_to(const cpu_set_t *cpus)
{
    if (sched_setaffinity(0, sizeof *cpus, cpus))
        say("@@NOTE sched_setaffinity: %s\n", strerror(errno));
}

static void execute(struct task *t);

static void begin(struct task *t, const struct spec *s, int number)
{
    memset(t, 0, sizeof *t);
    t->spec = s;
    t->random = mix(job.seed * 0x9E3779B97F4A7C15ULL + (uint64_t)(number + 1) * 0xD1342543DE82EF95ULL);
    prctl(PR_SET_NAME, s->comm);
    prctl(PR_SET_TIMERSLACK, 1UL);
    t->started_ns = now_ns();
    if (s->mask >= 0) {
        mark("wastedcores affinity %s", job.mask_text[s->mask]);
        bind_to(&job.mask[s->mask]);
    }
}

static void leave(struct task *t)
{
    if (!t->spec->daemon && __sync_sub_and_fetch(&shared->left, 1) == 0)
        futex_wake(&shared->left, 1);
    if (t->parent) {
        __sync_sub_and_fetch(&t->parent->lasting, !t->spec->daemon);
        __sync_sub_and_fetch(&t->parent->threads, 1);
        futex_wake(&t->parent->threads, 1);
    }
}

/* A process whose first thread has ended can be waited for only when its other threads have, and daemons may never. */
static void end_process(struct task *t)
{
    syscall(t->lasting ? SYS_exit : SYS_exit_group, 0);
}

struct birth { struct task *parent; const struct spec *spec; int number; };

static void *thread_main(void *given)
{
    struct birth birth = *(struct birth *)given;
    struct task t;
    free(given);
    begin(&t, birth.spec, birth.number);
    t.parent = birth.parent, t.thread = 1;
    execute(&t);
    leave(&t);
    return 0;
}

static void new_task(struct task *t, const struct spec *s, int group, int thread)
{
    int number = __sync_fetch_and_add(&shared->next_number, 1);
    if (!s->daemon)
        __sync_add_and_fetch(&shared->left, 1);
    if (thread) {
        struct birth *birth = malloc(sizeof *birth);
        pthread_t id;
        *birth = (struct birth){t, s, number};
        __sync_add_and_fetch(&t->lasting, !s->daemon);
        __sync_add_and_fetch(&t->threads, 1);
        if (pthread_create(&id, 0, thread_main, birth))
            say("@@ERROR a thread %s could not be made: %s\n", s->comm, strerror(errno));
        else
            pthread_detach(id);
        return;
    }
    pid_t pid = fork();
    if (pid < 0)
        say("@@ERROR a process %s could not be made: %s\n", s->comm, strerror(errno));
    if (pid == 0) {
        struct task child;
        if (group > 0)
            setsid();
        begin(&child, s, number);
        execute(&child);
        leave(&child);
        end_process(&child);
    }
    t->processes++;
}

static void wait_children(struct task *t, int most)
{
    for (;;) {
        int threads = t->threads;
        if (t->processes + threads <= most)
            return;
        if (threads)
            futex_wait(&t->threads, threads, -1);
        else if (wait4(-1, 0, __WALL, 0) > 0)
            t->processes--;
        else
            return;
    }
}

static void await_timer(struct semaphore *s, int64_t period_ns, int absolute)
{
    int64_t now = now_ns();
    s->next_ns = (s->next_ns ? s->next_ns : now) + period_ns;
    if (!period_ns)
        return;
    if (now < s->next_ns)
        sleep_until(s->next_ns);
    else if (!absolute)
        s->next_ns = now;
}

static void execute(struct task *t)
{
    for (int64_t pc = 0;; pc++) {
        const struct row *r = &t->spec->row[pc];
        struct semaphore *s = &shared->semaphore[r->a];
        int64_t length;
        switch (r->op) {
        case OP_EXIT:
            return;
        case OP_COMPUTE:
            length = uniform(t, r->a, r->b);
            if (!r->d) /* 1: it stands for what the kernel does here, and this kernel does it itself */
                compute(length);
            break;
        case OP_COMPUTE_EXP:
            compute(exponential(t, r->a, r->b, r->c));
            break;
        case OP_SLEEP:
            sleep_until(now_ns() + uniform(t, r->a, r->b));
            break;
        case OP_SLEEP_EXP:
            sleep_until(now_ns() + exponential(t, r->a, r->b, r->c));
            break;
        case OP_LOOP:
        case OP_LOOP_BARRIER:
            t->slot[r->b]++;
            if ((r->c < 0 || t->slot[r->b] < r->c) &&
                (r->op == OP_LOOP ? r->d < 0 || now_ns() < t->started_ns + r->d : !shared->barrier[r->d].stopped))
                pc = r->a - 1;
            else
                t->slot[r->b] = 0;
            break;
        case OP_BARRIER:
            meet(&shared->barrier[r->a], r->b, r->c, r->d);
            break;
        case OP_LOCK:
            if (!r->d) /* 1: the model of a lock inside of the kernel */
                take(&shared->lock[r->a], r->b, r->c);
            break;
        case OP_UNLOCK:
            if (!r->d)
                release(&shared->lock[r->a]);
            break;
        case OP_POST:
            post(s, r->b, r->c);
            break;
        case OP_WAIT:
            wait_for(s, r->b, r->c);
            break;
        case OP_SIGNAL:
            signal_waiters(s, r->b);
            break;
        case OP_CATCH:
            t->place = __sync_fetch_and_add(&s->tail, 1);
            break;
        case OP_WAIT_SIGNAL:
            wait_signal(s, t->place, r->b, r->c);
            break;
        case OP_TIMER:
            await_timer(s, r->b, r->c);
            break;
        case OP_FORK:
            new_task(t, &job.template[r->a], r->b, r->c);
            break;
        case OP_WAIT_CHILDREN:
            wait_children(t, r->a);
            break;
        case OP_AFFINITY:
            mark("wastedcores affinity %s", job.mask_text[r->a]);
            bind_to(&job.mask[r->a]);
            break;
        case OP_NICE:
            setpriority(PRIO_PROCESS, syscall(SYS_gettid), r->a);
            break;
        case OP_POLICY: {
            struct sched_param p = {.sched_priority = r->b};
            if (sched_setscheduler(0, r->a, &p))
                say("@@NOTE sched_setscheduler: %s\n", strerror(errno));
            break;
        }
        case OP_SESSION:
            setsid();
            break;
        case OP_YIELD:
            sched_yield();
            break;
        case OP_MARK:
            mark("%s", job.text[r->a]);
            break;
        default: /* what the kernel does itself: page counters */
            break;
        }
    }
}

/* Fork the tasks of one session in the order of their starts, each from its CPU. */
static void lead_session(int session)
{
    char name[16];
    snprintf(name, sizeof name, "session-%d", session);
    prctl(PR_SET_NAME, name);
    prctl(PR_SET_TIMERSLACK, 1UL);
    if (session)
        setsid();
    for (;;) {
        struct spec *next = 0;
        for (int i = 0; i < job.tasks; i++) /* number < 0: begun */
            if (job.task[i].group == session && job.task[i].number >= 0 && (!next || job.task[i].start_ns < next->start_ns))
                next = &job.task[i];
        if (!next)
            break;
        cpu_set_t here;
        CPU_ZERO(&here);
        CPU_SET(next->cpu, &here);
        mark("wastedcores affinity %d", next->cpu);
        bind_to(&here);
        sleep_until(shared->start_ns + next->start_ns);
        bind_to(&all_cpus);
        mark("wastedcores affinity all");
        if (fork() == 0) {
            struct task t;
            if (next->nice)
                setpriority(PRIO_PROCESS, 0, next->nice);
            begin(&t, next, next->number);
            execute(&t);
            leave(&t);
            end_process(&t);
        }
        next->number = -1;
    }
    while (wait4(-1, 0, __WALL, 0) > 0)
        ;
    _exit(0);
}

void start_tasks(void)
{
    for (int session = 0; session < job.sessions; session++) {
        int some = 0;
        for (int i = 0; i < job.tasks; i++)
            some |= job.task[i].group == session;
        if (some && fork() == 0)
            lead_session(session);
    }
}
