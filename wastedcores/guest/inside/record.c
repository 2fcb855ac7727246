/* The guest's recorder: `runner NUMBER EVENTS BUFFER_KB` runs the job /job/NUMBER while the kernel traces, and sends the host the
   trace and what the kernel says about itself, through the port 0xe9. `runner given` writes to its standard output what the host
   gives through the same port: the size in four bytes, and so many bytes. The machine stands still before, so that the host can
   save it.

   What the host gets: lines that begin with @@, and files as "@@FILE path", then pieces "@@PIECE size" with so many bytes each, and
   "@@END". */
#include "runner.h"
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRACING "/sys/kernel/tracing/"
/* how long the tasks that begin the workload have to get ready */
#define LEAD_NS 100000000LL

static void send_bytes(const char *bytes, size_t size)
{
    size_t words = size / 4;
    if (words)
        asm volatile("rep outsl" : "+S"(bytes), "+c"(words) : "d"(0xe9) : "memory");
    size &= 3;
    while (size--)
        outb(*bytes++, 0xe9);
}

void say(const char *format, ...)
{
    char text[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (write(1, text, strlen(text)) < 0)
        return;
}

static void sayf(const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    int size = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    send_bytes(text, size);
}

int put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_TRUNC);
    int wrong = fd < 0 || write(fd, text, strlen(text)) < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return wrong;
}

static void must_put(const char *path, const char *text)
{
    int wrong = put(path, text);
    if (wrong)
        say("@@ERROR %s takes no \"%s\": %s\n", path, text, strerror(wrong));
}

void mark(const char *format, ...)
{
    static int fd = -1;
    char text[4096];
    va_list list;
    va_start(list, format);
    int size = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (fd < 0)
        fd = open(TRACING "trace_marker", O_WRONLY);
    if (fd >= 0 && write(fd, text, size) < 0)
        return;
}

void send_file(const char *path)
{
    static char bytes[1 << 18];
    int fd = open(path, O_RDONLY), size;
    if (fd < 0)
        return;
    sayf("@@FILE %s\n", path);
    while ((size = read(fd, bytes, sizeof bytes)) > 0) {
        sayf("@@PIECE %d\n", size);
        send_bytes(bytes, size);
    }
    sayf("@@END\n");
    close(fd);
}

void send_matching(const char *pattern)
{
    glob_t found;
    if (glob(pattern, GLOB_NOSORT, 0, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            send_file(found.gl_pathv[i]);
    globfree(&found);
}

void tracing(const char *events, const char *buffer_kb)
{
    char list[1024], path[256];
    must_put(TRACING "tracing_on", "0");
    must_put(TRACING "buffer_size_kb", buffer_kb);
    must_put(TRACING "trace_clock", "local");
    must_put(TRACING "saved_cmdlines_size", "32768");
    must_put(TRACING "options/overwrite", "0");
    put(TRACING "trace", "");
    strncpy(list, events, sizeof list - 1);
    for (char *event = strtok(list, ","); event; event = strtok(0, ",")) {
        snprintf(path, sizeof path, TRACING "events/%s/enable", event);
        must_put(path, "1");
    }
}

void tracing_on(int on)
{
    must_put(TRACING "tracing_on", on ? "1" : "0");
}

static const char *FACTS[] = {
    "/sys/devices/system/cpu/present", "/sys/devices/system/cpu/online", "/sys/devices/system/cpu/isolated",
    "/sys/devices/system/cpu/nohz_full", "/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list",
    "/sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id", "/sys/devices/system/cpu/cpu[0-9]*/cache/index[23]/level",
    "/sys/devices/system/cpu/cpu[0-9]*/cache/index[23]/type", "/sys/devices/system/cpu/cpu[0-9]*/cache/index[23]/shared_cpu_list",
    "/sys/devices/system/node/online", "/sys/devices/system/node/node[0-9]*/cpulist",
    "/sys/devices/system/node/node[0-9]*/distance", "/proc/schedstat", "/sys/kernel/debug/sched/domains/cpu[0-9]*/domain*/name",
    "/sys/kernel/debug/sched/domains/cpu[0-9]*/domain*/flags", "/sys/kernel/debug/sched/features",
    "/sys/kernel/debug/sched/base_slice_ns", "/proc/cgroups", "/proc/self/mountinfo", "/proc/cmdline",
    "/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/version",
    "/proc/sys/kernel/sched_autogroup_enabled", "/proc/config.gz", "/sys/kernel/sched_ext/root/ops",
};

static void send_tasks(void)
{
    send_matching("/proc/[0-9]*/task/[0-9]*/stat");
    send_matching("/proc/[0-9]*/task/[0-9]*/status");
    send_matching("/proc/[0-9]*/task/[0-9]*/cgroup");
    send_matching("/proc/[0-9]*/autogroup");
}

static void take(int cpu, int online)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/online", cpu);
    must_put(path, online ? "1" : "0");
}

/* Make the steps of hotplug at their times until the tasks have ended, or until the limit; return how many were made. */
static int attend(void)
{
    int64_t end = job.limit_ns ? shared->start_ns + job.limit_ns : INT64_MAX;
    for (int made = 0;;) {
        int left = shared->left;
        int64_t now = now_ns(), until = end;
        if (left == 0 || now >= end)
            return made;
        if (made < job.steps) {
            int64_t at = shared->start_ns + job.step[made].at_ns;
            if (now >= at) {
                take(job.step[made].cpu, job.step[made].online);
                made++;
                continue;
            }
            until = at < end ? at : end;
        }
        futex_wait(&shared->left, left, until == INT64_MAX ? -1 : until - now);
    }
}

static void run_command(char *path)
{
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        execl("/bin/busybox", "sh", path, (char *)0);
        _exit(127);
    }
    int status;
    waitpid(pid, &status, 0);
    say("@@EXIT %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static int write_given(void)
{
    static char bytes[1 << 16];
    outb(0, 0xea); /* stands still */
    for (size_t left = inl(0xe9), size; left; left -= size) {
        size = left < sizeof bytes ? left : sizeof bytes;
        void *to = bytes;
        size_t words = (size + 3) / 4;
        asm volatile("rep insl" : "+D"(to), "+c"(words) : "d"(0xe9) : "memory");
        for (size_t done = 0; done < size;) {
            ssize_t some = write(1, bytes + done, size - done);
            if (some < 0)
                return 1;
            done += some;
        }
    }
    return 0;
}

int main(int arguments, char **argument)
{
    char path[64], script[64];
    struct stat found;
    iopl(3);
    if (arguments == 2 && !strcmp(argument[1], "given"))
        return write_given();
    if (arguments != 4)
        return 2;
    sched_getaffinity(0, sizeof all_cpus, &all_cpus);
    snprintf(path, sizeof path, "/job/%s", argument[1]);
    snprintf(script, sizeof script, "/job/%s.sh", argument[1]);
    int is_script = stat(script, &found) == 0;
    int made = 0; /* steps of hotplug */
    if (!is_script)
        read_job(path);
    tracing(argument[2], argument[3]);
    sayf("@@JOB %s\n", argument[1]);
    for (size_t i = 0; i < sizeof FACTS / sizeof *FACTS; i++)
        send_matching(FACTS[i]);
    send_tasks();
    say("@@RUN %s\n", argument[1]);
    tracing_on(1);
    if (is_script) {
        mark("workload start");
        run_command(script);
        mark("workload end");
    } else {
        shared->start_ns = now_ns() + LEAD_NS;
        start_tasks();
        made = attend();
    }
    tracing_on(0);
    kill(-1, SIGKILL); /* all but init and this process */
    while (wait4(-1, 0, __WALL, 0) > 0)
        ;
    /* the next job of this boot begins on the same machine: the steps are taken back, the last one first */
    for (int i = made - 1; i >= 0; i--)
        take(job.step[i].cpu, !job.step[i].online);
    say("@@SEND %s\n", argument[1]);
    send_matching(TRACING "per_cpu/cpu[0-9]*/stats");
    send_file(TRACING "trace");
    sayf("@@DONE %s\n", argument[1]);
    say("@@DONE %s\n", argument[1]);
    return 0;
}
