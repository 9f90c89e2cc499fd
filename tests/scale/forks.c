/* SPDX-License-Identifier: Apache-2.0 */

/* 10,000 forks, each child waited for with its own status. */
#include "scale.h"

int main(void)
{
	scale_begin();
	for (int round = 0; round < 2; round++) {
		int right = 0;

		for (int i = 0; i < 10000; i++) {
			pid_t pid = fork();
			int status;

			if (pid < 0)
				scale_fail("fork");
			if (pid == 0)
				_exit(i % 256);
			if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
			    WEXITSTATUS(status) == i % 256)
				right++;
		}
		printf("%d children right\n", right);
		scale_ready();
	}
	return 0;
}
