/* SPDX-License-Identifier: Apache-2.0 */
/* execve of damaged ELF files: headers by hand, bits at random, files cut short. */
#include "hostile.h"
#include <elf.h>

#define VARIANTS 700

static const char *const bases[] = {"/proc/self/exe", "/bin/true", "/bin/busybox"};

static void damage(uint8_t *m, size_t size, size_t ph_size, size_t *cut)
{
	uint8_t *ph = m + 64;
	uint64_t v = rnd_value();

	switch (rnd_below(8)) {
	case 0:
		m[rnd_below(64)] ^= (uint8_t)(1 << rnd_below(8));
		break;
	case 1:
		ph[rnd_below(ph_size)] ^= (uint8_t)(1 << rnd_below(8));
		break;
	case 2:
	case 3:
		memcpy(ph + rnd_below(ph_size / 8) * 8, &v, 8);
		break;
	case 4:
		memcpy(m + 16 + rnd_below(6) * 8, &v, 8);
		break;
	case 5:
		m[rnd_below(size)] ^= (uint8_t)(1 << rnd_below(8));
		break;
	case 6:
		*cut = rnd_below(size);
		break;
	default:
		for (int i = 0; i < 200; i++)
			m[rnd_below(size)] = (uint8_t)rnd();
		break;
	}
}

int main(int argc, char **argv)
{
	const struct rlimit memory = {UINT64_C(1) << 30, UINT64_C(1) << 30};

	hostile_begin();
	if (argc > 1 || !argv[0])
		return 0;
	for (int i = 0; i < VARIANTS; i++) {
		int fd = open(bases[rnd_below(HOSTILE_COUNT(bases))], O_RDONLY);
		struct stat st;
		uint8_t *m;
		size_t cut, ph_size;
		pid_t pid;

		if (fd < 0)
			continue;
		fstat(fd, &st);
		m = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		close(fd);
		cut = (size_t)st.st_size;
		ph_size = ((Elf64_Ehdr *)m)->e_phnum * sizeof(Elf64_Phdr);
		for (uint64_t n = 1 + rnd_below(3); n > 0; n--)
			damage(m, (size_t)st.st_size, ph_size, &cut);
		fd = open("/tmp/elf", O_WRONLY | O_CREAT | O_TRUNC, 0755);
		(void)!write(fd, m, cut);
		close(fd);
		munmap(m, (size_t)st.st_size);
		pid = fork();
		if (pid == 0) {
			char *const args[] = {"elf", "again", NULL};

			fd = open("/dev/null", O_RDWR);
			for (int k = 0; k < 3; k++)
				dup2(fd, k);
			setrlimit(RLIMIT_AS, &memory);
			execve("/tmp/elf", args, args + 2);
			_exit(1);
		}
		end_of(pid, 300);
	}
	puts("ok");
	return 0;
}
