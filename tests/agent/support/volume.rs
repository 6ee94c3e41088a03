//! A downward-API volume, written in the same steps as by the kubelet's `AtomicWriter`
//! (<https://github.com/kubernetes/kubernetes/blob/master/pkg/volume/util/atomic_writer.go>).

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A downward-API volume in a directory.
pub(crate) struct Volume {
    pub(crate) directory: PathBuf,
    generation: u64,
}

impl Volume {
    pub(crate) fn new(directory: &Path) -> Volume {
        Volume { directory: directory.to_owned(), generation: 0 }
    }

    /// Writes the file `annotations` in the same steps and order as the kubelet. Returns false if the content has not
    /// changed.
    pub(crate) fn write(&mut self, content: &str) -> bool {
        let at = |name: &str| self.directory.join(name);
        let old = fs::read_link(at("..data")).ok();
        if let Some(old) = &old
            && fs::read_to_string(self.directory.join(old).join("annotations")).is_ok_and(|now| now == content)
        {
            return false;
        }
        self.generation += 1;
        let fresh = format!("..2026_11_21_14_02_10.{}", self.generation);
        fs::create_dir(at(&fresh)).unwrap();
        fs::set_permissions(at(&fresh), fs::Permissions::from_mode(0o755)).unwrap();
        let file = at(&fresh).join("annotations");
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        symlink(&fresh, at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        match symlink("..data/annotations", at("annotations")) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => panic!("{error}"),
            _ => {}
        }
        if let Some(old) = old {
            fs::remove_dir_all(self.directory.join(old)).unwrap();
        }
        true
    }
}
