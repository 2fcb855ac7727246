/*
 * So many threads that compute until they are killed, for bench_capture.py: each counts what it has done in its own
 * cache line of a shared file, so that the work of a moment can be read without asking anybody.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_barrier_t all_there;

static void *compute(void *argument)
{
	volatile uint64_t *done = argument;
	uint64_t x = 88172645463325252ULL;

	pthread_barrier_wait(&all_there);
	for (;;) {
		for (int i = 0; i < 20000; i++) { /* xorshift64: about 20 us */
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
		}
		done[1] = x;
		done[0]++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc == 3 ? atoi(argv[1]) : 0;
	int fd = threads > 0 ? open(argv[2], O_RDWR) : -1;
	char *counts = fd < 0 ? MAP_FAILED : mmap(NULL, 64 * (size_t)threads, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pthread_attr_t small;
	pthread_t thread;

	if (counts == MAP_FAILED)
		return 2;
	pthread_barrier_init(&all_there, NULL, threads + 1);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread, &small, compute, counts + 64 * (size_t)i))
			return 2;
	pthread_barrier_wait(&all_there);
	puts("there");
	fflush(stdout);
	pause();
	return 0;
}
