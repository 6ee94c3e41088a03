//! Tests of two conditions of one container on the same other container.

use super::{plan_errors, plan_of, plan_summary, template};

#[test]
fn edges_combine_unless_they_contradict() {
    for (a, b, both) in [
        ("Started", "Ready", Some("Ready")),
        ("Started", "Exited", Some("Exited")),
        ("Completed", "Exited", Some("Completed")),
        ("Ready", "Ready", Some("Ready")),
        ("Ready", "Completed", None),
        ("Ready", "Exited", None),
    ] {
        for (order, after) in [(a, b), (b, a)] {
            let (order, after) = (format!("db={order}, api"), format!("db={after}"));
            let template = template(&["db", "api"], &[("podgate.io/order", &order), ("after.podgate.io/api", &after)]);
            match both {
                Some(both) => assert_eq!(plan_summary(&plan_of(&template))[1], format!("api entrypoint db={both}")),
                None => {
                    let findings = plan_errors(&template);
                    assert_eq!(findings[0].rule, "condition-never-met");
                    assert!(findings[0].message.contains("can never be met at the same time"), "{}", findings[0]);
                }
            }
        }
    }
}
