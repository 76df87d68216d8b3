/* Clocks that a test moves under a running process: LD_PRELOAD it, and name a file of two 64-bit numbers in
 * CLOCKSHIM_FILE. The first is how many nanoseconds the machine was suspended, which CLOCK_MONOTONIC does not count; the
 * second is by how many its wall clock was set. Each is changed by a single write, so no reader sees half of it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t zero[2];
static const volatile int64_t *shift = zero;

__attribute__((constructor)) static void open_shift(void) {
    const char *path = getenv("CLOCKSHIM_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *seen = mmap(NULL, sizeof zero, PROT_READ, MAP_SHARED, file, 0);
    if (seen != MAP_FAILED)
        shift = seen;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (failed)
        return failed;
    int64_t moved = 0;
    if (clock == CLOCK_BOOTTIME || clock == CLOCK_BOOTTIME_ALARM)
        moved = shift[0];
    else if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        moved = shift[0] + shift[1];
    int64_t nanos = now->tv_nsec + moved % 1000000000;
    now->tv_sec += moved / 1000000000 + (nanos >= 1000000000) - (nanos < 0);
    now->tv_nsec = (nanos + 1000000000) % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *given) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (given)
        *given = found.tv_sec;
    return found.tv_sec;
}
