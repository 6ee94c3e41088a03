//! Containers and Pods with orders that several scenarios share.

use crate::pod::{Container, Pod, server};

/// Creates the chain `db`, `api`, `web` with hooks. `db` becomes ready after `db_ready_after`, `api` after half a
/// second.
pub(crate) fn chain(name: &str, db_ready_after: &str) -> Pod {
    Pod::new(name, chain_containers(db_ready_after, &[]))
}

/// Returns the containers of [`chain`], with `flags` for both hooks.
pub(crate) fn chain_containers(db_ready_after: &str, flags: &[&str]) -> [Container; 3] {
    [
        server("db").http(8001).ready_after(db_ready_after).hook(flags),
        server("api").http(8002).ready_after("500ms").hook(flags),
        server("web").http(8003),
    ]
}

/// Returns the containers of [`chain`] with gates in place of hooks. The gate of `db` has no condition, but provides
/// the tether of `db`.
pub(crate) fn gated_chain_containers(db_ready_after: &str, flags: &[&str]) -> [Container; 3] {
    let until = |name| [&["--until", name], flags].concat();
    [
        server("db").http(8001).ready_after(db_ready_after).gate(flags),
        server("api").http(8002).ready_after("500ms").gate(&until("db")),
        server("web").http(8003).gate(&until("api")),
    ]
}

/// Returns a diamond: `api` and `cache` start when `db` is Ready, and `web` starts when `api` and `cache` are Ready.
pub(crate) fn diamond_containers(db_ready_after: &str, flags: &[&str]) -> [Container; 4] {
    let until = |name| [&["--until", name], flags].concat();
    [
        server("db").http(8001).ready_after(db_ready_after).gate(flags),
        server("api").http(8002).ready_after("1s").gate(&until("db")),
        server("cache").http(8003).ready_after("2s").gate(&until("db")),
        server("web").http(8004).gate(&[&until("api")[..], &["--until", "cache"]].concat()),
    ]
}
