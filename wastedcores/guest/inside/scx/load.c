/* The guest's loader: `scx OBJECT` gives the kernel the sched_ext scheduler of a BPF object, and ends; the scheduler stays.

   What goes wrong is said with @@ERROR, after the verifier's last lines. It is linked with libbpf 1.0 or later, statically. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* lines of the verifier's log that the console shows */
#define SHOWN 8
#define NEEDED "Expected Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT and CONFIG_DEBUG_INFO_BTF, as --kernel debian:6.18 has them"

static char verifier[1 << 20];

static int print(enum libbpf_print_level level, const char *format, va_list list)
{
    return level == LIBBPF_WARN ? vprintf(format, list) : 0;
}

static void failed(const char *object, const char *what, int error)
{
    char *line = verifier + strlen(verifier);
    for (int lines = 0; line > verifier; line--)
        if (line[-1] == '\n' && lines++ > SHOWN)
            break;
    for (line = strtok(line, "\n"); line; line = strtok(0, "\n"))
        printf("verifier: %s\n", line);
    printf("@@ERROR %s: the scheduler %s", object, what);
    printf(error ? ": %s\n" : "\n", strerror(abs(error)));
    exit(1);
}

/* The kernel says of a scheduler that it was started also if its init() fails. */
static int is_running(void)
{
    char state[8] = "";
    FILE *file = fopen("/sys/kernel/sched_ext/state", "r");
    if (file && fgets(state, sizeof state, file))
        fclose(file);
    return strcmp(state, "enabled") == 0;
}

/* libbpf 1.1 does not know this kind of section */
static int may_sleep(struct bpf_program *program, long cookie)
{
    (void)cookie;
    return bpf_program__set_flags(program, bpf_program__flags(program) | BPF_F_SLEEPABLE);
}

int main(int arguments, char **argument)
{
    LIBBPF_OPTS(bpf_object_open_opts, opening, .kernel_log_buf = verifier, .kernel_log_size = sizeof verifier);
    LIBBPF_OPTS(libbpf_prog_handler_opts, handler, .prog_setup_fn = may_sleep);
    const char *path = argument[1], *files[] = {"/sys/kernel/sched_ext", "/sys/kernel/btf/vmlinux"};
    struct bpf_map *map;
    int error;

    if (arguments != 2)
        return 2;
    setvbuf(stdout, 0, _IOLBF, 0);
    for (int i = 0; i < 2; i++)
        if (access(files[i], F_OK)) {
            printf("@@ERROR the kernel cannot load the scheduler of --scx: it has no %s. " NEEDED "\n", files[i]);
            return 1;
        }
    libbpf_set_print(print);
    libbpf_register_prog_handler("struct_ops.s+", BPF_PROG_TYPE_STRUCT_OPS, 0, &handler);
    struct bpf_object *object = bpf_object__open_file(path, &opening);
    if ((error = libbpf_get_error(object)))
        failed(path, "cannot be opened", error);
    if ((error = bpf_object__load(object)))
        failed(path, "is refused by the kernel or by libbpf", error);
    bpf_object__for_each_map(map, object)
        if (bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS) {
            struct bpf_link *link = bpf_map__attach_struct_ops(map);
            if ((error = libbpf_get_error(link)))
                failed(path, "cannot be started", error);
            usleep(100000); /* for what the kernel has to say */
            if (!is_running())
                failed(path, "ended at once, for the reason above", 0);
            return 0; /* without the link's destructor, which would end the scheduler */
        }
    failed(path, "has no section .struct_ops", 0);
}
