/* SPDX-License-Identifier: Apache-2.0 */

/* As dash runs a command, but the child waits for a line before it executes the program. */
#include <signal.h>
#include <unistd.h>

int main(void)
{
	sigset_t all, old;
	char c;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	if (vfork() == 0) {
		sigprocmask(SIG_SETMASK, &old, NULL);
		if (write(1, "begun\n", 6) != 6)
			_exit(1);
		while (read(0, &c, 1) == 1 && c != '\n')
			;
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	return write(1, "over\n", 5) != 5;
}
