//! Tests that a process of the same user cannot read the sidecar's service account token through /proc.

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

/// User id in the sidecar's image, without capabilities. Root could read all of /proc, so the test needs another user.
const NOBODY: u32 = 65532;

#[test]
fn processes_of_the_sidecar_are_hidden_from_their_own_user() {
    let pod = Pod::new();
    let set_mode = |path: PathBuf, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    for directory in ["", "board", "self"] {
        set_mode(pod.path(directory), 0o777);
    }
    for program in [PROGRAM, AGENT] {
        let copy = pod.path(&PathBuf::from(program).file_name().unwrap().to_string_lossy());
        std::fs::copy(program, &copy).unwrap();
        set_mode(copy, 0o755);
    }
    let as_nobody = |command: &mut Command| {
        if rustix::process::getuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
    };
    for arguments in [&["ready", "--timeout", "1m"][..], &["--publish", "none", "--containers", "[]"]] {
        let mut command = Command::new(pod.path("podgate-controller"));
        command.args(arguments).env("PODGATE_BOARD", pod.path("board")).env("PODGATE_SELF", pod.path("self"));
        as_nobody(&mut command);
        let sidecar = Sidecar { child: Some(command.stderr(Stdio::null()).spawn().unwrap()) };
        let id = sidecar.child.as_ref().unwrap().id();
        for file in ["environ", "root/etc/hostname"] {
            until(&format!("{file} of {arguments:?} is refused"), || {
                let mut cat = Command::new("cat");
                as_nobody(cat.arg(format!("/proc/{id}/{file}")));
                stderr(&cat.output().unwrap()).contains("Permission denied")
            });
        }
    }
}
