/* Reads the job that the host wrote: whole numbers, names and lists of CPUs, one line each. */
#include "runner.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

struct job job;
struct shared *shared;
static FILE *in;

static int64_t number(void)
{
    long long value;
    if (fscanf(in, "%lld", &value) != 1) {
        say("@@ERROR the job ends in the middle\n");
        exit(1);
    }
    return value;
}

/* the rest of the line, without the space before it */
static char *line(void)
{
    static char text[4096];
    if (!fgets(text, sizeof text, in))
        text[0] = 0;
    text[strcspn(text, "\n")] = 0;
    return strdup(text[0] == ' ' ? text + 1 : text);
}

void parse_cpus(const char *text, cpu_set_t *set)
{
    CPU_ZERO(set);
    while (*text >= '0' && *text <= '9') {
        int first = strtol(text, (char **)&text, 10), last = first;
        if (*text == '-')
            last = strtol(text + 1, (char **)&text, 10);
        for (int cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            CPU_SET(cpu, set);
        if (*text == ',')
            text++;
    }
}

static void make_pipe(struct semaphore *s)
{
    struct rlimit most = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_NOFILE, &most);
    if (pipe(s->ends)) {
        say("@@ERROR a pipe for a semaphore: %s\n", strerror(errno));
        exit(1);
    }
}

static void read_spec(struct spec *s)
{
    s->number = number(), s->group = number(), s->nice = number(), s->cpu = number();
    s->start_ns = number(), s->daemon = number(), s->mask = number(), s->rows = number();
    strncpy(s->comm, line(), sizeof s->comm - 1);
    s->row = calloc(s->rows + 1, sizeof *s->row); /* the last one is OP_EXIT */
    for (int i = 0; i < s->rows; i++) {
        struct row *r = &s->row[i];
        r->op = number(), r->a = number(), r->b = number(), r->c = number(), r->d = number();
        if (r->op == OP_POST && r->c && !shared->semaphore[r->a].ends[1])
            make_pipe(&shared->semaphore[r->a]);
    }
}

void read_job(const char *path)
{
    in = fopen(path, "r");
    if (!in) {
        say("@@ERROR %s cannot be opened\n", path);
        exit(1);
    }
    job.seed = number(), job.limit_ns = number(), job.tops = number(), job.sessions = number();
    job.barriers = number(), job.locks = number(), job.semaphores = number();
    size_t size = sizeof *shared + job.barriers * sizeof *shared->barrier + job.locks * sizeof *shared->lock +
                  job.semaphores * sizeof *shared->semaphore + 64;
    shared = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared->semaphore = (void *)(shared + 1);
    shared->barrier = (void *)(shared->semaphore + job.semaphores);
    shared->lock = (void *)(shared->barrier + job.barriers);
    shared->next_number = job.tops;
    for (int i = 0; i < job.barriers; i++)
        shared->barrier[i].parties = number();
    for (int i = 0; i < job.semaphores; i++)
        shared->semaphore[i].value = number();
    job.steps = number(), job.step = calloc(job.steps + 1, sizeof *job.step);
    for (int i = 0; i < job.steps; i++)
        job.step[i].at_ns = number(), job.step[i].cpu = number(), job.step[i].online = number();
    job.masks = number(), line();
    job.mask = calloc(job.masks + 1, sizeof *job.mask), job.mask_text = calloc(job.masks + 1, sizeof(char *));
    for (int i = 0; i < job.masks; i++)
        parse_cpus(job.mask_text[i] = line(), &job.mask[i]);
    job.texts = number(), line();
    job.text = calloc(job.texts + 1, sizeof(char *));
    for (int i = 0; i < job.texts; i++)
        job.text[i] = line();
    job.templates = number(), job.template = calloc(job.templates + 1, sizeof *job.template);
    for (int i = 0; i < job.templates; i++)
        read_spec(&job.template[i]);
    job.tasks = number(), job.task = calloc(job.tasks + 1, sizeof *job.task);
    for (int i = 0; i < job.tasks; i++) {
        read_spec(&job.task[i]);
        shared->left += !job.task[i].daemon;
    }
    fclose(in);
}
