//! Tests of `podgate::core::names`.

use podgate::core::names::*;

#[test]
fn container_names_are_dns_labels() {
    for good in ["a", "db", "db-1", "0", &"x".repeat(63)] {
        assert!(is_container_name(good), "{good}");
    }
    for bad in ["", "-a", "a-", "A", "a.b", "a/b", "a=b", "..", &"x".repeat(64)] {
        assert!(!is_container_name(bad), "{bad}");
    }
}
