//! Injects each manifest of `corpus/` and then removes the injection. The manifests resemble the output of real charts.
//!
//! `tests/manifests/yaml_edit` reads `corpus/` too. The lists below contain the files that are not injected.

use super::{check_injection, lines, options};
use podgate::order::declare::SidecarUse;
use podgate::order::inject::{inject, is_injected_without_sidecar, wants_injection};
use podgate::order::plan::{ImageCommand, KnownFacts};
use podgate::order::pod_templates;
use serde_json::Value;
use std::fs;

/// Files that cannot be injected, each with the rule that rejects the file.
const REJECTED: [(&str, &str); 3] =
    [("hook-refused.yaml", "own-post-start"), ("name-taken.yaml", "name-taken"), ("windows.yaml", "windows")];
/// Files that declare no order, or that disable injection.
const UNTOUCHED: [&str; 2] = ["disabled.yaml", "not-declared.yaml"];

fn directory() -> String {
    format!("{}/tests/manifests/inject/corpus", env!("CARGO_MANIFEST_DIR"))
}

/// Returns the documents of a file, parsed as Kubernetes does.
pub(crate) fn documents(file: &str) -> Vec<Value> {
    let path = format!("{}/{file}", directory());
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_multiple_with_options(&text, options).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the Pod templates of a file.
pub(crate) fn templates(file: &str) -> Vec<Value> {
    let of = |document: &Value| {
        let found = pod_templates::templates(document).into_iter().map(|template| template.place);
        found.map(|place| place.of(document).unwrap_or_else(|| panic!("{file}: {place}")).clone()).collect::<Vec<_>>()
    };
    documents(file).iter().flat_map(of).collect()
}

pub(crate) fn files() -> Vec<String> {
    let entries = fs::read_dir(directory()).expect("the corpus");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
    names.sort();
    names
}

/// Calls `with` for each template that can be injected. Passes the file, the original and the result.
pub(crate) fn each_injected(mut with: impl FnMut(&str, &Value, &Value)) {
    for file in files() {
        for template in templates(&file) {
            if let Ok(done) = inject(&template, &options(), &KnownFacts::default())
                && !done.edits.is_empty()
            {
                with(&file, &template, &done.value);
            }
        }
    }
}

#[test]
fn every_manifest_is_injected_or_rejected_as_listed() {
    let mut injected = 0;
    for file in files() {
        let rejected = REJECTED.iter().find(|(name, _)| *name == file);
        let mut touched = 0;
        for template in templates(&file) {
            match (inject(&template, &options(), &KnownFacts::default()), rejected) {
                (Err(found), Some((_, rule))) => {
                    assert!(found.iter().any(|f| f.rule == *rule), "{file}: {}", lines(&found))
                }
                (Ok(_), Some(_)) => panic!("{file} was injected, but should be rejected"),
                (Err(found), None) => panic!("{file}: {}", lines(&found)),
                (Ok(done), None) => {
                    check_injection(&template, &options(), &KnownFacts::default()).expect("an injected template");
                    assert_eq!(!done.edits.is_empty(), wants_injection(&template), "{file}");
                    touched += usize::from(!done.edits.is_empty());
                }
            }
        }
        assert_eq!(touched > 0, rejected.is_none() && !UNTOUCHED.contains(&file.as_str()), "{file}");
        injected += usize::from(touched > 0);
    }
    assert!(injected >= 40, "only {injected} manifests were injected");
}

/// Returns true if `template` can be injected without a sidecar. With `knows_commands`, the commands of all images are
/// known.
fn needs_no_sidecar(template: &Value, knows_commands: bool) -> bool {
    let mut known = KnownFacts { sidecar: Some(SidecarUse::None), ..KnownFacts::default() };
    let containers = template["spec"]["containers"].as_array().into_iter().flatten();
    let names = containers.filter(|_| knows_commands).filter_map(|one| one["name"].as_str());
    let command = ImageCommand { entrypoint: vec!["/program".to_owned()], ..ImageCommand::default() };
    known.images.extend(names.map(|name| (name.to_owned(), command.clone())));
    inject(template, &options(), &known).is_ok_and(|done| is_injected_without_sidecar(&done.value))
}

/// The results of the benchmarks say how many orders need no sidecar: as they are, with the commands of all images, and
/// with a `ready.podgate.io` check for each container without a network probe.
#[test]
fn results_show_how_many_orders_need_no_sidecar() {
    let mut counts = [0; 4];
    each_injected(|_, original, _| {
        let mut template = original.clone();
        template["metadata"]["annotations"].as_object_mut().expect("annotations").remove("podgate.io/sidecar");
        let (as_it_is, with_commands) = (needs_no_sidecar(&template, false), needs_no_sidecar(&template, true));
        let containers = original["spec"]["containers"].as_array().expect("containers");
        for (number, container) in containers.iter().enumerate() {
            let is_network = |probe: &Value| probe["httpGet"].is_object() || probe["tcpSocket"].is_object();
            let probes = ["startupProbe", "readinessProbe"].map(|field| &container[field]);
            if probes.iter().all(|probe| probe.is_null())
                || probes.iter().any(|probe| !probe.is_null() && !is_network(probe))
            {
                let key = format!("ready.podgate.io/{}", container["name"].as_str().expect("a name"));
                template["metadata"]["annotations"][key] = format!("tcp://127.0.0.1:{}", 20_000 + number).into();
            }
        }
        let with_checks = needs_no_sidecar(&template, true);
        for (count, counts_here) in counts.iter_mut().zip([true, as_it_is, with_commands, with_checks]) {
            *count += usize::from(counts_here);
        }
    });
    let [all, as_they_are, with_commands, with_checks] = counts;
    let row =
        format!("| the {all} Pods of podgate's test manifests | {as_they_are} | {with_commands} | {with_checks} |");
    let results = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/bench/RESULTS.md")).expect("the results");
    assert!(results.contains(&row), "bench/RESULTS.md should contain {row}");
}
