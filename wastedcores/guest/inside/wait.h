/* How tasks wait for each other: spinning with PAUSE, sleeping on a futex, or first the one and then the other. */
#include <errno.h>

static inline uint64_t tsc(void)
{
    uint32_t low, high;
    asm volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

/* Spin until `condition` holds; in MODE_SPIN_BLOCK for at most `limit` ns (the guest's TSC counts ns). */
#define SPIN(condition, mode, limit)                                                   \
    do {                                                                               \
        uint64_t end_ = tsc() + (limit);                                               \
        while ((mode) != MODE_BLOCK && !(condition) && ((mode) == MODE_SPIN || tsc() < end_)) \
            asm volatile("pause" ::: "memory");                                        \
    } while (0)

static void meet(struct barrier *b, int mode, int64_t limit, int64_t deadline_ns)
{
    int generation = b->generation;
    if (__sync_add_and_fetch(&b->count, 1) == b->parties) {
        b->count = 0;
        if (deadline_ns >= 0 && now_ns() >= shared->start_ns + deadline_ns)
            b->stopped = 1;
        __sync_add_and_fetch(&b->generation, 1);
        if (b->waiters)
            futex_wake(&b->generation, 1 << 30);
        return;
    }
    SPIN(b->generation != generation, mode, limit);
    if (b->generation == generation) {
        __sync_add_and_fetch(&b->waiters, 1);
        while (b->generation == generation)
            futex_wait(&b->generation, generation, -1);
        __sync_sub_and_fetch(&b->waiters, 1);
    }
}

static void take(struct lock *l, int mode, int64_t limit)
{
    SPIN(l->state == 0 && __sync_bool_compare_and_swap(&l->state, 0, 1) && (mode = -1), mode, limit);
    if (mode < 0 || __sync_bool_compare_and_swap(&l->state, 0, 1))
        return;
    while (__atomic_exchange_n(&l->state, 2, __ATOMIC_SEQ_CST) != 0) /* 2: somebody may sleep */
        futex_wait(&l->state, 2, -1);
}

static void release(struct lock *l)
{
    if (__atomic_exchange_n(&l->state, 0, __ATOMIC_SEQ_CST) == 2)
        futex_wake(&l->state, 1);
}

static int lower(struct semaphore *s)
{
    int value = s->value;
    return value > 0 && __sync_bool_compare_and_swap(&s->value, value, value - 1);
}

static void wait_for(struct semaphore *s, int mode, int64_t limit)
{
    char byte;
    int got = 0;
    SPIN((got = lower(s)), mode, limit);
    while (!got && !lower(s)) {
        __sync_add_and_fetch(&s->waiters, 1);
        if (!s->ends[1])
            futex_wait(&s->value, 0, -1);
        else if (s->value <= 0 && read(s->ends[0], &byte, 1) < 0 && errno != EINTR)
            say("@@NOTE reading from a pipe: %s\n", strerror(errno));
        __sync_sub_and_fetch(&s->waiters, 1);
    }
}

/*
 * Sleepers are woken through a futex, or through a pipe if some posts wake synchronously: a write to it does that
 * (fs/pipe.c:pipe_write), and a page that is put into it does not (fs/splice.c:wakeup_pipe_readers).
 */
static void post(struct semaphore *s, int units, int synchronous)
{
    static char bytes[4096];
    __sync_add_and_fetch(&s->value, units);
    int sleepers = s->waiters < units ? s->waiters : units;
    if (!s->ends[1]) {
        if (sleepers > 0)
            futex_wake(&s->value, units);
        return;
    }
    while (sleepers > 0) {
        struct iovec some = {bytes, sleepers < 4096 ? sleepers : 4096};
        ssize_t put = synchronous ? writev(s->ends[1], &some, 1) : vmsplice(s->ends[1], &some, 1, 0);
        if (put < 0 && errno != EINTR) {
            say("@@NOTE writing to a pipe: %s\n", strerror(errno));
            return;
        }
        sleepers -= put > 0 ? put : 0;
    }
}

/* A condition: `tail` is the next waiter's place in the queue, and all places below `head` were signalled. */
static void wait_signal(struct semaphore *s, int place, int mode, int64_t limit)
{
    int head;
    SPIN(s->head - place > 0, mode, limit);
    while ((head = s->head) - place <= 0)
        futex_wait(&s->head, head, -1);
}

static void signal_waiters(struct semaphore *s, int all)
{
    int waiting = s->tail - s->head;
    if (waiting > 0) {
        __sync_add_and_fetch(&s->head, all ? waiting : 1);
        futex_wake(&s->head, 1 << 30); /* who is not meant sleeps again */
    }
}
