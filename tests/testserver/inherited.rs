//! Closes inherited file descriptors, as some daemons do at their start.
#![expect(unsafe_code, reason = "std and rustix have no safe function for this call")]

/// Closes all inherited descriptors except 0, 1 and 2. Call this function before the program opens a file.
pub(crate) fn close() {
    // SAFETY: this program has opened nothing yet, so no closed descriptor has an owner here. No memory is involved.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
    }
}
