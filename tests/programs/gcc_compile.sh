#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gcc: compile, link and run programs; libraries; errors; optimised code.
# needs: gcc ar nm objdump

cd "$TMPDIR" || exit 1
cat >hello.c <<'EOF'
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *work(void *p) { *(double *)p = sqrt(*(double *)p); return p; }
int main(int argc, char **argv)
{
	double v[4] = { 1, 4, 9, 16 };
	pthread_t t[4];
	for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, work, &v[i]);
	for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
	printf("%s %g %g %g %g\n", argc > 1 ? argv[1] : "none", v[0], v[1], v[2], v[3]);
	return argc;
}
EOF
for flags in -O0 -O2 '-O3 -flto' '-O1 -static' '-O1 -static-pie' '-O1 -no-pie' '-g -fsanitize=undefined'; do
	# shellcheck disable=SC2086
	gcc $flags -Wall -o hello hello.c -lm -pthread && ./hello "$flags"
	echo "exit $?"
done
cat >lib.c <<'EOF'
int counter;
__attribute__((constructor)) static void up(void) { counter = 41; }
int next(void) { return ++counter; }
EOF
cat >use.c <<'EOF'
#include <dlfcn.h>
#include <stdio.h>
int main(void)
{
	void *h = dlopen("./libmine.so", RTLD_NOW);
	int (*f)(void) = h ? (int (*)(void))dlsym(h, "next") : NULL;
	printf("%d %s\n", f ? f() : -1, dlopen("./nothing.so", RTLD_NOW) ? "?" : dlerror());
	return 0;
}
EOF
gcc -shared -fPIC -o libmine.so lib.c && gcc -o use use.c && ./use
gcc -c lib.c && ar rcs libmine.a lib.o && nm libmine.a | awk 'NF == 3 { print $2, $3 }'
objdump -d --no-show-raw-insn lib.o | grep -c ret
echo 'int main(void) { return x; }' >bad.c; gcc bad.c; echo "bad $?"
echo 'int main(void) { return f(); } ' | gcc -w -x c - 2>&1 | grep -c 'undefined reference'
echo 'int main(void) { int *p = 0; return *p; }' | gcc -x c - -o crash && sh -c './crash; echo $?' 2>/dev/null
gcc -E -dM - </dev/null | grep __x86_64__
gcc -pipe -S -O2 -o - lib.c | grep -c 'counter'
g++ --version >/dev/null 2>&1; echo 'int main(){}' | gcc -x c - -o t && ./t; echo "t $?"
