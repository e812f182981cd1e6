/* Reads the limits of other processes from /proc, for CRIU on hosts whose root lacks
 * CAP_SYS_RESOURCE: the kernel lets nobody else ask for those of another user's process. Preloaded
 * into CRIU on such hosts and into nothing else. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Width of the column of names. */
#define NAMES 26

static int parse(char **at, rlim64_t *value)
{
	while (**at == ' ')
		++*at;
	if (!strncmp(*at, "unlimited", 9)) {
		*at += 9;
		*value = RLIM64_INFINITY;
		return 0;
	}
	char *end;
	*value = strtoull(*at, &end, 10);
	if (end == *at)
		return -1;
	*at = end;
	return 0;
}

static int read_limits(pid_t pid, unsigned int resource, struct rlimit64 *limit)
{
	char path[64], text[8192];
	snprintf(path, sizeof(path), "/proc/%d/limits", (int)pid);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return -1;
	ssize_t length = 0, got;
	while ((got = read(file, text + length, sizeof(text) - 1 - length)) > 0)
		length += got;
	close(file);
	text[length] = 0;
	char *line = text;
	/* A line of headings, then a line for each limit in the order of their numbers. */
	for (unsigned int number = 0; number <= resource; number++) {
		line = strchr(line, '\n');
		if (!line)
			goto unexpected;
		line++;
	}
	if (strlen(line) < NAMES)
		goto unexpected;
	line += NAMES - 1;
	if (parse(&line, &limit->rlim_cur) || parse(&line, &limit->rlim_max))
		goto unexpected;
	return 0;
unexpected:
	errno = EIO;
	return -1;
}

/* The call of the C library that comes after this one. */
static long next_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	static long (*next)(long, ...);
	if (!next)
		next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return next(number, a, b, c, d, e, f);
}

static long limits(long pid, long resource, long new_limit, long old_limit)
{
	long answer = next_syscall(SYS_prlimit64, pid, resource, new_limit, old_limit, 0, 0);
	if (answer == 0 || errno != EPERM || new_limit || !old_limit || pid <= 0)
		return answer;
	return read_limits(pid, resource, (struct rlimit64 *)old_limit);
}

/* CRIU makes the call by its number. */
long syscall(long number, ...)
{
	va_list list;
	va_start(list, number);
	long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
	long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
	va_end(list);
	if (number == SYS_prlimit64)
		return limits((pid_t)a, (unsigned int)b, c, d);
	return next_syscall(number, a, b, c, d, e, f);
}

int prlimit64(__pid_t pid, enum __rlimit_resource resource, const struct rlimit64 *new_limit,
	      struct rlimit64 *old_limit)
{
	return limits(pid, resource, (long)new_limit, (long)old_limit);
}
