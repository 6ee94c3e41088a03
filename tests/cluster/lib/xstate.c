// Preloaded into User-mode Linux: widens the buffer with which it sets the registers of its processes. The buffer of
// Linux 6.1 has a fixed size, and the host's kernel refuses it on a processor with AMX.
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define NT_X86_XSTATE ((void *)0x202)
#define XSTATE_BV 512 // offset of the bit set of the states that are not in their initial configuration
#define AMX (3UL << 17)

static char buffer[65536];
static size_t full;

long ptrace(enum __ptrace_request request, ...) {
    va_list list;
    va_start(list, request);
    long pid = va_arg(list, long);
    void *address = va_arg(list, void *), *data = va_arg(list, void *);
    va_end(list);
    struct iovec *given = data, wide = {buffer, sizeof buffer};
    if (request == PTRACE_SETREGSET && address == NT_X86_XSTATE) {
        if (!full && !syscall(SYS_ptrace, PTRACE_GETREGSET, pid, address, &wide)) full = wide.iov_len;
        if (given->iov_len < full) {
            memcpy(buffer, given->iov_base, given->iov_len);
            memset(buffer + given->iov_len, 0, full - given->iov_len);
            *(unsigned long *)(buffer + XSTATE_BV) &= ~AMX;
            wide.iov_len = full;
            data = &wide;
        }
    }
    // The system call stores what it read; the function of libc returns it.
    if (request >= PTRACE_PEEKTEXT && request <= PTRACE_PEEKUSER) {
        long word, result = syscall(SYS_ptrace, request, pid, address, &word);
        return result < 0 ? result : word;
    }
    return syscall(SYS_ptrace, request, pid, address, data);
}
