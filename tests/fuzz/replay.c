/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main() of a fuzzer that is not built for fuzzing (m=fuzz has libFuzzer's): it runs the target
 * once on each file, and on each file of each folder, that it is given. So the corpus is part of
 * every test run.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* A target may have it. */
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

static unsigned g_runs;

static int replay(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) != 0) {
		perror(path);
		return 1;
	}
	if (S_ISDIR(st.st_mode)) {
		DIR *dir = fdopendir(fd);
		struct dirent *e;
		int bad = 0;

		while (dir && (e = readdir(dir)) != NULL) {
			char name[PATH_MAX];

			if (e->d_name[0] == '.')
				continue;
			snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
			bad |= replay(name);
		}
		closedir(dir);
		return bad;
	}

	/* Of the exact size, so that ASan sees a read past the end. */
	uint8_t *data = malloc((size_t)st.st_size + !st.st_size);
	ssize_t n = data ? read(fd, data, (size_t)st.st_size) : -1;

	close(fd);
	if (n != st.st_size) {
		perror(path);
		free(data);
		return 1;
	}
	LLVMFuzzerTestOneInput(data, (size_t)n);
	g_runs++;
	free(data);
	return 0;
}

int main(int argc, char **argv)
{
	int bad = 0;

	if (LLVMFuzzerInitialize)
		LLVMFuzzerInitialize(&argc, &argv);
	for (int i = 1; i < argc; i++)
		bad |= replay(argv[i]);
	printf("%u inputs\n", g_runs);
	return bad;
}
