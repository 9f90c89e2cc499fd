/* SPDX-License-Identifier: Apache-2.0 */
/* sigreturn from frames with garbage, then a jump to anywhere, the stub's region included. */
#include "hostile.h"
#include <ucontext.h>

#define CHILDREN 120

static void handler(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	uint8_t *fp = (uint8_t *)u->uc_mcontext.fpregs;
	uint32_t word = (uint32_t)rnd();

	(void)sig;
	(void)info;
	for (uint64_t n = 1 + rnd_below(4); n > 0; n--) {
		const uint64_t what = rnd_below(30);

		if (what < 23) {
			u->uc_mcontext.gregs[what] = (greg_t)rnd_value();
		} else if (what < 26) {
			u->uc_mcontext.gregs[REG_EFL] ^= (greg_t)1 << rnd_below(32);
		} else if (what == 26) {
			u->uc_mcontext.fpregs = (void *)rnd_value();
		} else if (fp && what < 29) {
			for (uint64_t k = rnd_below(64); k > 0; k--)
				fp[rnd_below(832)] = (uint8_t)rnd();
		} else if (fp) {
			/* The header of the vector state, and what says how long it is. */
			memcpy(fp + (rnd_below(2) ? 464 + rnd_below(12) * 4
						  : 512 + rnd_below(16) * 4),
			       &word, 4);
		}
	}
}

static void child(void)
{
	struct sigaction sa = {.sa_sigaction = handler,
			       .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
	const stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};

	if (rnd_below(2))
		sigaltstack(&stack, NULL);
	for (int s = 1; s < 65; s++)
		sigaction(s, &sa, NULL);
	alarm(1);
	for (int i = 0; i < 6; i++)
		raise(1 + (int)rnd_below(31));
	__asm__ volatile("call *%0" ::"r"(rnd_value()), "D"(rnd_value()), "S"(rnd_value()),
			 "a"(rnd_value()), "d"(rnd_value())
			 : "memory", "rcx", "r8", "r9", "r10", "r11");
	_exit(0);
}

int main(void)
{
	hostile_begin();
	for (int i = 0; i < CHILDREN; i++) {
		uint64_t seed = rnd();
		pid_t pid = fork();

		if (pid == 0) {
			int null = open("/dev/null", O_RDWR);

			for (int k = 0; k < 3; k++)
				dup2(null, k);
			hostile_seed = seed | 1;
			child();
		}
		end_of(pid, 100);
	}
	puts("ok");
	return 0;
}
