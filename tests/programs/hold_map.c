/* Keeps the lock of its own memory for as long as a file system does not answer: what it maps is to be read anew, and another
 * process waits for the very page. Whoever wants its arguments from /proc waits as well.
 *
 * usage: hold_map FILE GO: says "open", and begins when the file GO exists. FILE is on hang_fs. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	/* hang_fs has files that are opened so read past the page cache. */
	int direct = argc == 3 ? open(argv[1], O_RDONLY | O_APPEND) : -1;
	int cached = argc == 3 ? open(argv[1], O_RDONLY) : -1;
	char page[4096];
	if (direct < 0 || cached < 0)
		return perror("hold_map"), 1;
	puts("open");
	fflush(stdout);
	while (access(argv[2], F_OK))
		usleep(10000);
	/* A page that nobody has read yet. */
	if (!fork())
		return pread(cached, page, sizeof page, 32768) < 0;
	for (;;) {
		munmap(mmap(NULL, 65536, PROT_READ, MAP_PRIVATE, direct, 0), 65536);
		usleep(10000);
	}
}
