//! The orders that the scenarios are about.

use crate::pod::{Container, Pod, server};

/// The chain: `db`, `api` when `db` is Ready, `web` when `api` is Ready; `db` takes `db_ready_after`, `api` half a second.
pub(crate) fn chain(name: &str, db_ready_after: &str) -> Pod {
    Pod::new(name, chain_containers(db_ready_after, &[]))
}

/// The containers of [`chain`], with `flags` for both hooks.
pub(crate) fn chain_containers(db_ready_after: &str, flags: &[&str]) -> [Container; 3] {
    [
        server("db").http(8001).ready_after(db_ready_after).hook(flags),
        server("api").http(8002).ready_after("500ms").hook(flags),
        server("web").http(8003),
    ]
}

/// The same with gates: `db` has one that waits for nothing, for the tether that comes with it.
pub(crate) fn gated_chain_containers(db_ready_after: &str, flags: &[&str]) -> [Container; 3] {
    let until = |name| [&["--until", name], flags].concat();
    [
        server("db").http(8001).ready_after(db_ready_after).gate(flags),
        server("api").http(8002).ready_after("500ms").gate(&until("db")),
        server("web").http(8003).gate(&until("api")),
    ]
}

/// `api` and `cache` side by side when `db` is Ready, `web` when both are.
pub(crate) fn diamond_containers(db_ready_after: &str, flags: &[&str]) -> [Container; 4] {
    let until = |name| [&["--until", name], flags].concat();
    [
        server("db").http(8001).ready_after(db_ready_after).gate(flags),
        server("api").http(8002).ready_after("1s").gate(&until("db")),
        server("cache").http(8003).ready_after("2s").gate(&until("db")),
        server("web").http(8004).gate(&[&until("api")[..], &["--until", "cache"]].concat()),
    ]
}
