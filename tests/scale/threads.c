/* SPDX-License-Identifier: Apache-2.0 */

/* 2,000 threads at once: all alive together, then all gone. */
#include "scale.h"

#define COUNT 2000

static pthread_barrier_t barrier;
static int added[COUNT];

static void *work(void *arg)
{
	pthread_barrier_wait(&barrier);
	*(int *)arg = 1;
	pthread_barrier_wait(&barrier);
	return NULL;
}

int main(void)
{
	pthread_t threads[COUNT];
	pthread_attr_t attr;

	scale_begin();
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	for (int round = 0; round < 2; round++) {
		int sum = 0;

		memset(added, 0, sizeof(added));
		pthread_barrier_init(&barrier, NULL, COUNT + 1);
		for (int i = 0; i < COUNT; i++) {
			errno = pthread_create(&threads[i], &attr, work, &added[i]);
			if (errno)
				scale_fail("pthread_create");
		}
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
		for (int i = 0; i < COUNT; i++) {
			pthread_join(threads[i], NULL);
			sum += added[i];
		}
		pthread_barrier_destroy(&barrier);
		printf("%d threads ran at once\n", sum);
		scale_ready();
	}
	return 0;
}
