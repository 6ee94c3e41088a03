/* When preloaded, adds STEP_SECONDS to a program's wall clock as soon as the file STEP_WHEN exists. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    long failed = syscall(SYS_clock_gettime, clock, now);
    const char *when = getenv("STEP_WHEN"), *seconds = getenv("STEP_SECONDS");
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) && when && seconds && !access(when, F_OK))
        now->tv_sec += atol(seconds);
    return (int)failed;
}
