//! Property tests of plans for random Pods.

use podgate::core::container::{Container, Mode};
use podgate::core::container_list;
use podgate::core::until::WantedState;
use podgate::order::plan::{KnownFacts, Plan, PlannedMode, plan};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Input for a random Pod.
#[derive(Debug, Clone)]
struct Pod {
    containers: Vec<PodContainer>,
}

#[derive(Debug, Clone)]
struct PodContainer {
    place: usize,
    is_known: bool,
    mode: Option<&'static str>,
    has_exec_probe: bool,
    after: Vec<(usize, &'static str)>,
}

/// Generates Pods with containers in any order. Containers wait only for containers with lower numbers.
fn pods() -> impl Strategy<Value = Pod> {
    let one = |number: usize| {
        let mode = prop_oneof![4 => Just(None), 1 => prop::sample::select(vec!["post-start", "entrypoint", "hold", "auto"]).prop_map(Some)];
        let state = prop_oneof![4 => Just(""), 1 => Just("=Started"), 1 => Just("=Completed"), 1 => Just("=Exited")];
        let after = prop::collection::vec((0..number.max(1), state), 0..=3.min(number));
        (any::<usize>(), prop::bool::weighted(0.7), mode, prop::bool::weighted(0.2), after).prop_map(
            |(place, is_known, mode, exec, after)| PodContainer { place, is_known, mode, has_exec_probe: exec, after },
        )
    };
    (1..9usize)
        .prop_flat_map(move |size| (0..size).map(one).collect::<Vec<_>>())
        .prop_map(|containers| Pod { containers })
}

impl Pod {
    fn template(&self, extra: &[(usize, usize)]) -> Value {
        let mut annotations = serde_json::Map::new();
        let mut list: Vec<(usize, Value)> = Vec::new();
        for (number, one) in self.containers.iter().enumerate() {
            let mut after: BTreeMap<usize, &str> = one.after.iter().copied().collect();
            after.extend(extra.iter().filter(|(from, _)| *from == number).map(|(_, to)| (*to, "")));
            let after: Vec<String> = after.iter().map(|(to, state)| format!("c{to}{state}")).collect();
            if !after.is_empty() {
                annotations.insert(format!("after.podgate.io/c{number}"), json!(after.join(", ")));
            }
            if let Some(mode) = one.mode {
                annotations.insert(format!("mode.podgate.io/c{number}"), json!(mode));
            }
            let mut container = json!({"name": format!("c{number}")});
            if one.is_known {
                container["command"] = json!(["run"]);
            }
            if one.has_exec_probe {
                container["readinessProbe"] = json!({"exec": {"command": ["true"]}});
            }
            list.push((one.place, container));
        }
        list.sort_by_key(|(place, _)| *place);
        let list: Vec<Value> = list.into_iter().map(|(_, container)| container).collect();
        json!({"metadata": {"annotations": annotations}, "spec": {"containers": list, "restartPolicy": "OnFailure"}})
    }
}

/// Checks that each waiting container is gated or held, or that its required containers come earlier and have hooks.
fn check_held_back(plan: &Plan) -> Result<(), TestCaseError> {
    let containers: Vec<Container> = plan
        .containers
        .iter()
        .map(|p| Container {
            name: p.name.clone(),
            mode: p.mode(),
            until: p.gate_or_hook_conditions(),
            ..Container::default()
        })
        .collect();
    prop_assert_eq!(container_list::check_can_start(&containers), Ok(()));
    for (at, planned) in plan.containers.iter().enumerate() {
        prop_assert!(planned.entrypoint_gate().is_none_or(|gate| !gate.command.is_empty()));
        prop_assert!(planned.mode != PlannedMode::Hold || !planned.after.is_empty());
        for need in &planned.after {
            let before = plan.containers.iter().position(|other| other.name == need.container).unwrap();
            let other = &plan.containers[before];
            if !matches!(planned.mode(), Mode::Entrypoint | Mode::Hold) {
                // The kubelet starts the containers in list order, so only a wait for a later state needs a hook.
                prop_assert!(before < at, "{} before {}", other.name, planned.name);
                let holds = need.want == WantedState::Started || other.gate_or_hook_conditions().contains(need);
                prop_assert!(holds, "{:?} for {need}", other.gate_or_hook_conditions());
            }
            if matches!(need.want, WantedState::Completed | WantedState::Exited) {
                prop_assert!(matches!(planned.mode(), Mode::Entrypoint | Mode::Hold));
                prop_assert!(
                    other.mode() != Mode::PostStart && other.entrypoint_gate().is_none_or(|gate| gate.needs_parent)
                );
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plan_holds_back_every_waiting_container(pod in pods()) {
        match plan(&pod.template(&[]), &KnownFacts::default()) {
            Ok(plan) => check_held_back(&plan)?,
            Err(findings) => {
                let allowed = ["unknown-command", "mode-conflict", "condition-never-met", "hold-impossible"];
                prop_assert!(!findings.is_empty());
                for finding in findings.iter().filter(|f| f.level == podgate::order::finding::Level::Error) {
                    prop_assert!(allowed.contains(&finding.rule), "{}", finding);
                    prop_assert!(!finding.fix.is_empty());
                }
            }
        }
    }

    #[test]
    fn auto_mode_always_finds_a_strict_plan(pod in pods()) {
        let mut pod = pod;
        pod.containers.iter_mut().for_each(|one| one.mode = None);
        let plan = plan(&pod.template(&[]), &KnownFacts::default());
        prop_assert!(plan.is_ok(), "{plan:#?}");
        let plan = plan.unwrap();
        check_held_back(&plan)?;
        prop_assert!(plan.containers.iter().all(|planned| planned.mode() != Mode::PostStart), "auto never breaks the order");
    }

    #[test]
    fn sorted_containers_keep_their_order(pod in pods()) {
        let mut pod = pod;
        for (number, one) in pod.containers.iter_mut().enumerate() {
            (one.place, one.is_known, one.mode) = (number, true, None);
        }
        if let Ok(plan) = plan(&pod.template(&[]), &KnownFacts::default()) {
            prop_assert!(plan.containers.is_sorted_by_key(|planned| planned.index));
        }
    }

    #[test]
    fn every_cycle_is_rejected_and_shown(pod in pods(), from in any::<prop::sample::Index>(), length in 1..4usize) {
        // Build a chain of consecutive containers. Then close the chain: the first container waits for the last.
        let size = pod.containers.len();
        let last = from.index(size);
        let first = last.saturating_sub(length - 1);
        let mut extra: Vec<(usize, usize)> = (first..last).map(|at| (at + 1, at)).collect();
        extra.push((first, last));
        let findings = plan(&pod.template(&extra), &KnownFacts::default()).unwrap_err();
        let cycle = findings.iter().find(|finding| finding.rule == "cycle");
        let Some(cycle) = cycle else { return Err(TestCaseError::fail(format!("{findings:#?}"))) };
        if let Some(names) = cycle.message.strip_prefix("containers wait for each other: ") {
            let waits: Vec<(&str, &str)> = names.split(", ").filter_map(|wait| wait.split_once(" waits for ")).collect();
            prop_assert!(waits.len() > 1 && (0..waits.len()).all(|at| waits[at].1 == waits[(at + 1) % waits.len()].0));
        } else {
            prop_assert!(cycle.message.ends_with(" waits for itself"), "{}", cycle.message);
        }
    }

    #[test]
    fn pre_stop_limits_decrease_along_every_chain(pod in pods(), seconds in 1..100_000u64) {
        let mut template = pod.template(&[]);
        template["spec"]["restartPolicy"] = json!("Always");
        template["spec"]["terminationGracePeriodSeconds"] = json!(seconds);
        if let Ok(plan) = plan(&template, &KnownFacts::default()) {
            for planned in plan.containers.iter().filter(|planned| !planned.outlives.is_empty()) {
                prop_assert!(planned.pre_stop_limit < plan.grace && !planned.pre_stop_limit.is_zero());
                for user in planned.outlives.iter().filter_map(|name| plan.get(name)) {
                    prop_assert!(user.outlives.is_empty() || user.pre_stop_limit < planned.pre_stop_limit);
                    let has_tether = user.entrypoint_gate().is_some() || user.hook_needs_tether();
                    prop_assert!(has_tether, "podgate cannot tell when {} has exited", user.name);
                }
            }
        }
    }
}
