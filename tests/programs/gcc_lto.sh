#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gcc in other ways than the usual one: link-time optimisation by several processes, sanitizers, counters of profiles.
# needs: gcc gcc-ar

cd "$TMPDIR" || exit 1
cat >a.c <<'EOF'
#include <pthread.h>
#include <stdio.h>
int square(int);
static void *thread(void *arg)
{
	*(int *)arg = square(7);
	return NULL;
}
int main(void)
{
	int v = 0;
	pthread_t t;

	pthread_create(&t, NULL, thread, &v);
	pthread_join(t, NULL);
	printf("%d %d\n", square(3), v);
	return 0;
}
EOF
echo 'int square(int x) { return x * x; }' >b.c
build() { # NAME OPTION...
	local name=$1
	shift
	echo "$name"
	gcc -O1 -pthread "$@" -o "$name" a.c b.c && "./$name"
	echo "exit $?"
}
build lto -flto=2
build pipe -flto -pipe
build static -static
build ubsan -fsanitize=undefined
build tsan -fsanitize=thread
build gprof -pg
ls gmon.out
build gcov --coverage
ls ./*.gcda
gcc -O1 -flto -c b.c && gcc-ar rcs lib.a b.o && gcc -O1 -flto -pthread -o archive a.c lib.a && ./archive
export ASAN_OPTIONS=detect_leaks=0
build asan -fsanitize=address
