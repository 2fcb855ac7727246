/* Loads for the recordings in tests/invariant/guest: gcc -O2 -static -pthread -o loads loads.c
 *
 *     loads spin THREADS WORK_MS SLEEP_MS          threads that compute, and sleep now and then
 *     loads fork LOOPS WORK_MS                     processes that fork a child that computes, wait for it, and fork the next
 *     loads pairs pipe|socket|futex PAIRS HZ US    a client's timer wakes a server that computes and wakes the client
 *     loads compositor HZ THREADS US               a timer thread wakes all others with one futex and waits for them
 *     loads server PORT WORKERS US                 worker processes that accept a connection, compute and answer
 *     loads client PORT RATE                       opens RATE connections per second at random (exponential) times
 *     loads pidreuse PARENTS WORK_MS               parents, two pinned to each CPU from 0, that fork one child after another
 *
 * Every load runs until it is killed. A time of work is CPU time of the thread (CLOCK_THREAD_CPUTIME_ID), so a thread that
 * has to wait for a CPU takes longer and does not do less.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void work(long us)
{
	long end = now(CLOCK_THREAD_CPUTIME_ID) + us * 1000;
	while (now(CLOCK_THREAD_CPUTIME_ID) < end)
		for (volatile int i = 0; i < 50; i++)
			;
}

static void until(long at)
{
	struct timespec t = {at / 1000000000L, at % 1000000000L};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static void name(const char *what, int i)
{
	char text[32];
	snprintf(text, sizeof text, "%s-%d", what, i);
	prctl(PR_SET_NAME, text);
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void wake(atomic_int *word, int many)
{
	atomic_fetch_add(word, 1);
	syscall(SYS_futex, word, FUTEX_WAKE, many, NULL, NULL, 0);
}

/* Wait until the word is no longer as it was, and return what it is. */
static int wait_change(atomic_int *word, int old)
{
	while (atomic_load(word) == old)
		syscall(SYS_futex, word, FUTEX_WAIT, old, NULL, NULL, 0);
	return atomic_load(word);
}

static void start(void *(*run)(void *), long i)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, run, (void *)i))
		fail("pthread_create");
}

static long a, b, c;

static void *spinner(void *i)
{
	name("spin", (long)i);
	for (;;) {
		work(a * 1000 + 700 * (long)i);
		if (b)
			until(now(CLOCK_MONOTONIC) + b * 1000000);
	}
	return NULL;
}

static void forks(int loops, long us)
{
	for (int i = 0; i < loops; i++)
		if (fork() == 0) {
			name("loop", i);
			for (;;) {
				if (fork() == 0) {
					name("work", i);
					work(us + 300 * i);
					_exit(0);
				}
				wait(NULL);
			}
		}
	pause();
}

static atomic_int request[64], reply[64];

static void *futex_server(void *at)
{
	long i = (long)at;
	int seen = 0;
	name("server", i);
	for (;;) {
		seen = wait_change(&request[i], seen);
		work(c);
		wake(&reply[i], 1);
	}
	return NULL;
}

static void client(int i, const char *how, int in, int out)
{
	char byte = 0;
	int seen = 0;
	long period = 1000000000L / b, at = now(CLOCK_MONOTONIC) + 7000000L * i;
	name("client", i);
	if (how[0] == 'f')
		start(futex_server, i);
	for (;; at += period) {
		if (at < now(CLOCK_MONOTONIC))
			at = now(CLOCK_MONOTONIC);
		until(at);
		work(c / 2);
		if (how[0] == 'f') {
			wake(&request[i], 1);
			seen = wait_change(&reply[i], seen);
		} else if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1)
			fail("pair");
		work(c / 4);
	}
}

static void pairs(const char *how, int n)
{
	int to[2], from[2];
	char byte;
	for (int i = 0; i < n; i++) {
		if (how[0] == 's') {
			if (socketpair(AF_UNIX, SOCK_STREAM, 0, to))
				fail("socketpair");
			from[0] = to[1], from[1] = to[0];
		} else if (pipe(to) || pipe(from))
			fail("pipe");
		if (how[0] != 'f' && fork() == 0) {
			name("server", i);
			while (read(to[0], &byte, 1) == 1) {
				work(c);
				if (write(from[1], &byte, 1) != 1)
					fail("server");
			}
		}
		if (fork() == 0)
			client(i, how, from[0], to[1]);
	}
	pause();
}

static atomic_int frame, done;

static void *painter(void *i)
{
	int seen = 0;
	name("painter", (long)i);
	for (;;) {
		seen = wait_change(&frame, seen);
		work(c + 50 * (long)i);
		wake(&done, 1);
	}
	return NULL;
}

static void compositor(long hz, int threads)
{
	long at = now(CLOCK_MONOTONIC), period = 1000000000L / hz;
	for (long i = 0; i < threads; i++)
		start(painter, i);
	name("compositor", 0);
	for (int frames = 1;; frames++) {
		until(at += period);
		wake(&frame, threads);
		for (int seen; (seen = atomic_load(&done)) < frames * threads;)
			wait_change(&done, seen);
		work(c / 2);
	}
}

static struct sockaddr_in loopback(int port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return at;
}

static void server(int port, int workers, long us)
{
	struct sockaddr_in at = loopback(port);
	int one = 1, s = socket(AF_INET, SOCK_STREAM, 0), to;
	char text[512];
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(s, (struct sockaddr *)&at, sizeof at) || listen(s, 128))
		fail("listen");
	for (int i = 0; i < workers; i++)
		if (fork() == 0) {
			name("worker", i);
			for (;;) {
				if ((to = accept(s, NULL, NULL)) < 0)
					continue;
				if (read(to, text, sizeof text) > 0) {
					work(us);
					if (write(to, "HTTP/1.0 200 OK\r\n\r\nhello\n", 25) < 0)
						perror("answer");
				}
				close(to);
			}
		}
	pause();
}

/* Each request is made by one of 16 processes, so a slow answer does not hold the next request back. */
static void requests(int port, double rate)
{
	struct sockaddr_in at = loopback(port);
	for (int i = 0; i < 16; i++)
		if (fork() == 0) {
			long next = now(CLOCK_MONOTONIC);
			name("client", i);
			srand48(i + 1);
			for (;;) {
				char text[512];
				next += (long)(-log(1 - drand48()) * 16e9 / rate);
				until(next);
				int s = socket(AF_INET, SOCK_STREAM, 0);
				if (connect(s, (struct sockaddr *)&at, sizeof at) == 0 && write(s, "GET / HTTP/1.0\r\n\r\n", 18) == 18)
					while (read(s, text, sizeof text) > 0)
						;
				close(s);
			}
		}
	pause();
}

static void pidreuse(int parents, long us)
{
	for (int i = 0; i < parents; i++)
		if (fork() == 0) {
			cpu_set_t set;
			CPU_ZERO(&set);
			CPU_SET(i / 2, &set);	/* two parents per CPU: they and their children wait for each other */
			if (sched_setaffinity(0, sizeof set, &set))
				fail("sched_setaffinity");
			name("parent", i);
			for (;;) {
				if (fork() == 0) {
					name("child", i);
					work(us + 1000 * i);
					_exit(0);
				}
				work(us / 2);
				wait(NULL);
			}
		}
	pause();
}

int main(int n, char **v)
{
	const char *mode = n > 1 ? v[1] : "";
	long x = n > 2 ? atol(v[2]) : 0, y = n > 3 ? atol(v[3]) : 0, z = n > 4 ? atol(v[4]) : 0;
	if (!strcmp(mode, "spin") && n == 5) {
		a = y, b = z;
		for (long i = 0; i < x; i++)
			start(spinner, i);
		pause();
	} else if (!strcmp(mode, "fork") && n == 4)
		forks(x, y * 1000);
	else if (!strcmp(mode, "pairs") && n == 6) {
		b = z, c = atol(v[5]);
		pairs(v[2], y);
	} else if (!strcmp(mode, "compositor") && n == 5) {
		c = z;
		compositor(x, y);
	} else if (!strcmp(mode, "server") && n == 5)
		server(x, y, z);
	else if (!strcmp(mode, "client") && n == 4)
		requests(x, atof(v[3]));
	else if (!strcmp(mode, "pidreuse") && n == 4)
		pidreuse(x, y * 1000);
	fprintf(stderr, "loads: see the head of loads.c for what to say\n");
	return 2;
}
