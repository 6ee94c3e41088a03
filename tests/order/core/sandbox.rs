//! Tests of `podgate::core::sandbox`.

use podgate::core::sandbox::*;

fn id(text: &str) -> SandboxId {
    text.parse().unwrap()
}

#[test]
fn id_is_built_from_kernel_data() {
    let boot = Some("3f2a9c1e-aaaa-bbbb-cccc-1234567890ab\n");
    let root = b"/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/abc/hostname".as_slice();
    let made = SandboxId::new(boot, Some(4097), Some(root), None);
    assert_eq!(made.to_string(), format!("3f2a9c1e-4097-{:08x}", fnv1a(root)));
    assert_eq!(made.to_string().parse(), Ok(made));
}

#[test]
fn missing_parts_are_zero_or_come_from_shared_memory() {
    assert_eq!(SandboxId::new(None, None, None, None).to_string(), "0-0-0");
    assert_eq!(SandboxId::new(None, Some(7), None, Some(0xabc)).to_string(), "0-7-0");
    assert_eq!(SandboxId::new(Some("3f2a9c1e-x"), None, None, Some(0xabc)).to_string(), "3f2a9c1e-0-00000abc");
}

#[test]
fn zero_matches_anything_and_other_parts_must_be_equal() {
    let here = id("3f2a9c1e-4097-1a0c5f3b");
    for same in ["3f2a9c1e-4097-1a0c5f3b", "0-4097-1a0c5f3b", "3f2a9c1e-0-1a0c5f3b", "3f2a9c1e-4097-0", "0-0-0"] {
        assert!(here.matches(&id(same)) && id(same).matches(&here), "{same}");
    }
    for other in ["3f2a9c1f-4097-1a0c5f3b", "3f2a9c1e-4098-1a0c5f3b", "3f2a9c1e-4097-1a0c5f3c"] {
        assert!(!here.matches(&id(other)), "{other}");
    }
}

#[test]
fn invalid_ids_are_rejected() {
    let bad = "|-|--|a-b|3f2a9c1e-1|3f2a9c1e-1-1-1|3f2a9c1-1-1|3f2a9c1e--1|3f2a9c1e-+1-1|zzzzzzzz-1-1";
    for bad in bad.split('|') {
        assert_eq!(bad.parse::<SandboxId>(), Err(InvalidSandboxId), "{bad}");
    }
    assert_eq!("3f2a9c1e-99999999999999999999-1".parse::<SandboxId>(), Err(InvalidSandboxId));
}

#[test]
fn last_mount_over_hostname_wins() {
    let mounts = b"21 1 0:5 / / rw - overlay o rw\n\
        30 21 8:1 /a/hostname /etc/hostname rw - ext4 d rw\n\
        31 21 8:1 /b/hostname /etc/hostname rw - ext4 d rw\n\
        32 21 8:1 /c /etc/hostname2 rw - ext4 d rw\n";
    assert_eq!(hostname_mount_root(mounts), Some(b"/b/hostname".as_slice()));
    assert_eq!(hostname_mount_root(b"21 1 0:5 / / rw\ngarbage"), None);
}

#[test]
fn fnv1a_matches_the_published_vectors() {
    assert_eq!(fnv1a(b""), 0x811c_9dc5);
    assert_eq!(fnv1a(b"a"), 0xe40c_292c);
    assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
}
