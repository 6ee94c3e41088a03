// Denies open-file-description locks, like a kernel or sandbox that does not support these locks.
#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OFD_SETLK 37

int fcntl(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    long value = va_arg(list, long);
    va_end(list);
    if (command == OFD_SETLK) {
        errno = EINVAL;
        return -1;
    }
    return syscall(SYS_fcntl, fd, command, value);
}
