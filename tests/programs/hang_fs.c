/* A file system that stops answering, as a file server does that is gone: FUSE without a library.
 *
 * usage: hang_fs DIR PROGRAM STOP
 *
 * Mounts itself on DIR with one file, `program`, a copy of PROGRAM, which is read past the page cache if opened with O_APPEND. Says "ready", and serves until the file STOP exists: from
 * then on every request waits. Ends with the mount when it is killed; requests that wait then fail. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int fuse;
static char *content;
static size_t size;
static char request[FUSE_MIN_READ_BUFFER + 1024 * 1024];

static void answer(const struct fuse_in_header *in, int error, const void *data, size_t length)
{
	struct fuse_out_header out = { .len = sizeof out + length, .error = error, .unique = in->unique };
	struct iovec parts[2] = { { &out, sizeof out }, { (void *)data, length } };
	if (writev(fuse, parts, length ? 2 : 1) < 0 && errno != ENOENT)
		perror("hang_fs: writev");
}

static struct fuse_attr attributes(uint64_t node)
{
	struct fuse_attr attr = { .ino = node, .nlink = 1, .blksize = 4096 };
	attr.mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0755;
	attr.size = node == 1 ? 0 : size;
	attr.blocks = attr.size / 512;
	return attr;
}

static void serve(const struct fuse_in_header *in, const char *body)
{
	switch (in->opcode) {
	case FUSE_INIT: {
		struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION };
		out.max_readahead = 4096;
		out.max_write = 4096;
		answer(in, 0, &out, sizeof out);
		return;
	}
	case FUSE_LOOKUP: {
		struct fuse_entry_out out = { .nodeid = 2, .attr = attributes(2) };
		answer(in, strcmp(body, "program") ? -ENOENT : 0, &out, strcmp(body, "program") ? 0 : sizeof out);
		return;
	}
	case FUSE_GETATTR: {
		struct fuse_attr_out out = { .attr = attributes(in->nodeid) };
		answer(in, 0, &out, sizeof out);
		return;
	}
	case FUSE_OPEN: case FUSE_OPENDIR: {
		const struct fuse_open_in *open = (const void *)body;
		struct fuse_open_out out = { .open_flags = open->flags & O_APPEND ? FOPEN_DIRECT_IO : 0 };
		answer(in, 0, &out, sizeof out);
		return;
	}
	case FUSE_READ: {
		const struct fuse_read_in *read = (const void *)body;
		size_t left = read->offset < size ? size - read->offset : 0;
		answer(in, 0, content + read->offset, left < read->size ? left : read->size);
		return;
	}
	case FUSE_FLUSH: case FUSE_RELEASE: case FUSE_RELEASEDIR: case FUSE_ACCESS:
		answer(in, 0, NULL, 0);
		return;
	case FUSE_FORGET: case FUSE_BATCH_FORGET: case FUSE_INTERRUPT:
		return;
	default:
		answer(in, -ENOSYS, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	int program = open(argv[2], O_RDONLY);
	struct stat stat;
	if (program < 0 || fstat(program, &stat) || !(content = malloc(stat.st_size)))
		return perror(argv[2]), 1;
	size = read(program, content, stat.st_size);
	fuse = open("/dev/fuse", O_RDWR);
	char options[100];
	snprintf(options, sizeof options, "fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other", fuse);
	if (mount("hang_fs", argv[1], "fuse.hang_fs", MS_NODEV, options))
		return perror("hang_fs: mount"), 1;
	puts("ready");
	fflush(stdout);
	for (;;) {
		/* Whoever waits for a request that was read from the kernel cannot even be killed: none is read any more. */
		struct pollfd requests = { .fd = fuse, .events = POLLIN };
		poll(&requests, 1, -1);
		while (!access(argv[3], F_OK))
			pause();
		ssize_t n = read(fuse, request, sizeof request);
		if (n < 0 && errno == ENODEV)
			return 0;
		if (n < (ssize_t)sizeof(struct fuse_in_header))
			continue;
		serve((const void *)request, request + sizeof(struct fuse_in_header));
	}
}
