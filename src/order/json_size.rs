//! Limit on the size of JSON that podgate writes.

use serde::Serialize;
use std::io::{Result, Write};

/// Maximum length of a Pod as JSON, of all changes by one injection, and of the webhook's patch, in bytes. Kubernetes
/// cannot store a much larger Pod: etcd rejects objects of more than 1.5 MiB.
pub const JSON_MAX: usize = 1 << 20;

struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Returns the length of `value` as JSON, in bytes. Needs no memory for the JSON.
pub fn json_length(value: &impl Serialize) -> usize {
    let mut counter = Counter(0);
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}
