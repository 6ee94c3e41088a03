//! Identity of a pod sandbox: `BOOT-COOKIE-ROOT`. The parts are:
//!
//! - the first 8 characters of the boot id
//! - the network namespace's cookie, in decimal
//! - the FNV-1a hash of the mount root of `/etc/hostname`, in 8 hexadecimal digits; only this part differs between Pods
//!   on the node's network
//!
//! All containers of a pod compute the same id without the API server. The id changes when the sandbox is recreated or
//! the node reboots.

use std::fmt;
use std::str::FromStr;

/// Identity of a pod sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SandboxId {
    boot: String,
    cookie: u64,
    root: u64,
}

impl SandboxId {
    /// Builds the id from kernel data. `None` marks a part that is unavailable. The parameters are:
    ///
    /// - `boot_id`: the content of `/proc/sys/kernel/random/boot_id`
    /// - `cookie`: `SO_NETNS_COOKIE`
    /// - `mount_root`: the result of [`hostname_mount_root`]
    pub fn new(boot_id: Option<&str>, cookie: Option<u64>, mount_root: Option<&[u8]>) -> SandboxId {
        let boot = boot_id.map(|id| id.chars().take(8).collect::<String>());
        let boot = boot.filter(|b| is_boot_prefix(b)).unwrap_or_else(|| "0".to_owned());
        SandboxId { boot, cookie: cookie.unwrap_or(0), root: mount_root.map_or(0, |root| u64::from(fnv1a(root))) }
    }

    /// Returns true if both ids may denote the same sandbox. A part that is `0` was unavailable and matches anything.
    pub fn matches(&self, other: &SandboxId) -> bool {
        let boot = self.boot == "0" || other.boot == "0" || self.boot == other.boot;
        let same = |a, b| a == 0 || b == 0 || a == b;
        boot && same(self.cookie, other.cookie) && same(self.root, other.root)
    }

    /// Returns true if the id has a part that differs between the sandboxes of a node: the cookie or the root.
    pub fn is_unique(&self) -> bool {
        self.cookie != 0 || self.root != 0
    }
}

fn is_boot_prefix(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Returns the 32-bit FNV-1a hash of `bytes`.
pub fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Returns the mount root (field 4) of the mount point `/etc/hostname` in `/proc/self/mountinfo`
/// (<https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html>). The last such mount is the visible one. Returns
/// `None` if the root is not a file of the container runtime: a container may have a volume at that path.
pub fn hostname_mount_root(mountinfo: &[u8]) -> Option<&[u8]> {
    let root = mountinfo.split(|b| *b == b'\n').rev().find_map(|line| {
        let mut fields = line.split(|b| *b == b' ').skip(3);
        let (root, mount_point) = (fields.next()?, fields.next()?);
        (mount_point == b"/etc/hostname").then_some(root)
    })?;
    // containerd: `…/sandboxes/ID/hostname`; CRI-O: `…/ID/userdata/hostname`; cri-dockerd: `…/containers/ID/hostname`.
    let directory = root.strip_suffix(b"/hostname")?;
    let id = directory.strip_suffix(b"/userdata").unwrap_or(directory).rsplit(|b| *b == b'/').next()?;
    (id.len() == 64 && id.iter().all(u8::is_ascii_hexdigit)).then_some(root)
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SandboxId { boot, cookie, root } = self;
        match root {
            0 => write!(f, "{boot}-{cookie}-0"),
            root => write!(f, "{boot}-{cookie}-{root:08x}"),
        }
    }
}

impl FromStr for SandboxId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let parts: Vec<&str> = text.splitn(4, '-').collect();
        let [boot, cookie, root] = parts[..] else { return Err(()) };
        // Integer parsers of std accept a leading plus sign, which is not valid in an id.
        if !(boot == "0" || is_boot_prefix(boot)) || text.contains('+') {
            return Err(());
        }
        let cookie = cookie.parse().map_err(drop)?;
        Ok(SandboxId { boot: boot.to_owned(), cookie, root: u64::from_str_radix(root, 16).map_err(drop)? })
    }
}
