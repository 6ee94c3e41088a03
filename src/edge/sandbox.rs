//! Reads this container's sandbox id from the kernel.

use crate::core::sandbox::{SandboxId, hostname_mount_root};
use crate::edge::files::read_following_links;
use crate::edge::sys::netns_cookie;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::path::Path;

/// Size limit for `/proc/self/mountinfo`, in bytes.
const MOUNTINFO_MAX: usize = 4 * 1024 * 1024;

/// Returns this container's sandbox id. An unavailable part is `0`, which matches any value.
pub fn sandbox_id() -> SandboxId {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok();
    let cookie = socket.and_then(|socket| netns_cookie(socket).ok());
    let mounts = read_following_links(Path::new("/proc/self/mountinfo"), MOUNTINFO_MAX).ok();
    SandboxId::new(boot.as_deref(), cookie, mounts.as_deref().and_then(hostname_mount_root))
}
