/* Maps a file and waits for one of its pages while another thread wants to change the mappings, which is how a process looks
 * whose file server is gone: whoever wants its arguments or its maps from /proc waits as well.
 *
 * usage: touch_map FILE GO: says "mapped", and begins when the file GO exists. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile char *mapped;

static void *touch(void *unused)
{
	(void)unused;
	return (void *)(long)mapped[8192];
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int file = argc == 3 ? open(argv[1], O_RDONLY) : -1;
	mapped = mmap(NULL, 65536, PROT_READ, MAP_SHARED, file, 0);
	if (file < 0 || mapped == MAP_FAILED)
		return perror("touch_map"), 1;
	puts("mapped");
	fflush(stdout);
	while (access(argv[2], F_OK))
		usleep(10000);
	pthread_create(&thread, NULL, touch, NULL);
	for (;;) {
		usleep(50000);
		munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
	}
}
