//! Tests of `podgate::core::sandbox`.

use podgate::core::sandbox::*;

fn id(text: &str) -> SandboxId {
    text.parse().unwrap()
}

#[test]
fn id_is_built_from_kernel_data() {
    let boot = Some("3f2a9c1e-aaaa-bbbb-cccc-1234567890ab\n");
    let root = b"/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/abc/hostname".as_slice();
    let made = SandboxId::new(boot, Some(4097), Some(root));
    assert_eq!(made.to_string(), format!("3f2a9c1e-4097-{:08x}", fnv1a(root)));
    assert_eq!(made.to_string().parse(), Ok(made));
}

#[test]
fn missing_parts_are_zero() {
    assert_eq!(SandboxId::new(None, None, None).to_string(), "0-0-0");
    assert_eq!(SandboxId::new(Some("3f2a9c1e-x"), Some(7), None).to_string(), "3f2a9c1e-7-0");
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
        assert_eq!(bad.parse::<SandboxId>(), Err(()), "{bad}");
    }
    assert_eq!("3f2a9c1e-99999999999999999999-1".parse::<SandboxId>(), Err(()));
}

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn mount_line(root: &str) -> String {
    format!("30 21 8:1 {root} /etc/hostname rw - ext4 d rw\n")
}

#[test]
fn only_the_runtimes_file_counts_as_root() {
    for (root, is_runtimes) in [
        ("/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/ID/hostname", true),
        ("/lib/rancher/k3s/agent/containerd/io.containerd.grpc.v1.cri/sandboxes/ID/hostname", true),
        ("/containers/storage/overlay-containers/ID/userdata/hostname", true),
        ("/var/lib/docker/containers/ID/hostname", true),
        // A hostPath, a ConfigMap, an emptyDir, and gVisor's root.
        ("/etc/hostname", false),
        ("/var/lib/kubelet/pods/0f3c/volumes/kubernetes.io~configmap/name/..2026/hostname", false),
        ("/var/lib/kubelet/pods/0f3c/volume-subpaths/name/agent/0", false),
        ("/hostname", false),
        ("/", false),
        ("/sandboxes/ID0/hostname", false),
        ("/sandboxes/0ID/hostname", false),
        ("/sandboxes/ID/hosts", false),
        ("/sandboxes/ID/hostname/", false),
        ("ID", false),
    ] {
        let root = root.replace("ID", ID);
        let expected = is_runtimes.then_some(root.as_bytes());
        assert_eq!(hostname_mount_root(mount_line(&root).as_bytes()), expected, "{root}");
    }
}

/// A volume hides the runtime's file, also if it comes from the directory of another sandbox.
#[test]
fn last_mount_over_hostname_wins() {
    let (own, other) = (format!("/sandboxes/{ID}/hostname"), format!("/sandboxes/{}/hostname", ID.replace('0', "f")));
    let mounts = |last: &str| mount_line(&own) + &mount_line(last) + "32 21 8:1 /c /etc/hostname2 rw - ext4 d rw\n";
    assert_eq!(hostname_mount_root(mounts("/c").as_bytes()), None);
    assert_eq!(hostname_mount_root(mounts(&other).as_bytes()), Some(other.as_bytes()));
    assert_eq!(hostname_mount_root(b"21 1 0:5 / / rw\ngarbage"), None);
    let id = |last: &str| SandboxId::new(None, Some(4097), hostname_mount_root(mounts(last).as_bytes()));
    assert!(id(&own).matches(&id("/c")));
    assert!(!id(&own).matches(&id(&other)));
}

#[test]
fn fnv1a_matches_the_published_vectors() {
    assert_eq!(fnv1a(b""), 0x811c_9dc5);
    assert_eq!(fnv1a(b"a"), 0xe40c_292c);
    assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
}
