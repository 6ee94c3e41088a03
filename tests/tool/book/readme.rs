//! Tests that `README.md` shows real results: the injected Pod, the measured faults, and the times of the pictures.

use super::page::Page;
use super::tool;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Ways of README's table of faults, each with its modes in `cells.jsonl`.
const WAYS: [(&str, &[&str]); 5] = [
    ("**podgate**", &["entrypoint", "hold"]),
    ("native sidecars", &["native-sidecars"]),
    ("wrapper", &["polling-wrapper"]),
    ("OpenKruise", &["kruise"]),
    ("postStart hook", &["hook-loop"]),
];

/// Faults in the columns of that table.
const FAULTS: [&str; 3] = ["crash_after_ready", "kubelet_restarted", "sandbox_killed"];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Regenerate README's Pod with PODGATE_REGENERATE=1, for example after a new version.
#[test]
fn readme_shows_the_injected_pod() {
    let plain = read("docs/start.yaml");
    let output = tool(&["inject", "-q", "-"], &plain);
    let injected = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let blocks = Page::read("README.md").blocks("yaml");
    let shown = blocks.iter().find(|block| block.text.contains("podgate.io/injected:")).expect("an injected Pod");
    if std::env::var_os("PODGATE_REGENERATE").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        fs::write(path, read("README.md").replace(&shown.text, &injected)).unwrap();
        return;
    }
    assert!(shown.text == injected, "{}: inject prints\n{injected}", shown.at);
    let order = blocks[0].text.lines().last().unwrap();
    assert!(plain.lines().any(|line| line == order), "docs/start.yaml declares another order than {order}");
}

#[test]
fn readme_shows_the_measured_faults() {
    let cells: Vec<Value> = read("tests/kubelet/guarantees/cells.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|cell| cell["kubernetes"] == "1.37")
        .collect();
    let of_mode = |mode: &str| cells.iter().filter(move |cell| cell["mode"] == mode).collect::<Vec<&Value>>();
    let compared: BTreeSet<&str> =
        of_mode("native-sidecars").into_iter().filter_map(|cell| cell["row"].as_str()).collect();
    let page = Page::read("README.md");
    for (way, modes) in WAYS {
        let line = page.lines().find(|line| line.starts_with(&format!("| {way}"))).unwrap_or_else(|| panic!("{way}"));
        let shown: Vec<&str> = line.split('|').map(str::trim).skip(2).take(FAULTS.len() + 1).collect();
        for mode in modes {
            let measured = of_mode(mode).into_iter().filter(|cell| compared.contains(cell["row"].as_str().unwrap()));
            let measured: Vec<&Value> = measured.filter(|cell| cell["order"] != "NotHere").collect();
            let is_kept = |cell: &&&Value| cell["order"] == "Kept";
            let mut expected: Vec<String> = Vec::new();
            for fault in FAULTS {
                let cell =
                    measured.iter().find(|cell| cell["row"] == fault).unwrap_or_else(|| panic!("{mode}, {fault}"));
                expected.push(if is_kept(&cell) { "✓" } else { "✗" }.to_owned());
            }
            expected.push(format!("{} of {}", measured.iter().filter(is_kept).count(), measured.len()));
            assert_eq!(shown, expected, "{way}, {mode}");
        }
    }
}

#[test]
fn the_caption_has_the_times_of_the_pictures() {
    let words = read("README.md").split_whitespace().collect::<Vec<&str>>().join(" ");
    for name in ["without", "with"] {
        let picture = read(&format!("docs/images/{name}.svg"));
        let (_, rest) = picture.split_once("the Pod is Ready after ").expect("a time");
        let (seconds, _) = rest.split_once(" s<").expect("seconds");
        assert!(words.contains(&format!(" {seconds} s ")), "{name}: {seconds} s");
    }
}

#[test]
fn readme_shows_lines_of_the_complete_pod_with_hooks() {
    let value = |text: &str| serde_saphyr::from_str::<Value>(text).unwrap();
    let blocks = Page::read("README.md").blocks("yaml");
    let shown = blocks.iter().find(|block| block.text.contains("post-start")).expect("a Pod with hooks");
    assert!(is_part(&value(&shown.text), &value(&read("manifests/pod.yaml"))["spec"]), "{}", shown.at);
}

/// Returns true if `whole` has all fields of `part`, and all items of its lists of objects.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|whole| is_part(value, whole)))
        }
        (Value::Array(part), Value::Array(whole)) if part.iter().any(Value::is_object) => {
            part.iter().all(|item| whole.iter().any(|whole| is_part(item, whole)))
        }
        _ => part == whole,
    }
}

#[test]
fn readme_builds_the_images_of_this_version() {
    let page = Page::read("README.md");
    let builds: Vec<&str> = page.lines().filter(|line| line.starts_with("docker build ")).collect();
    let [sidecar, webhook] = &builds[..] else { panic!("{builds:?}") };
    let tagged = |name: &str| format!(" -t $REGISTRY/{name}:{} .", env!("CARGO_PKG_VERSION"));
    assert!(sidecar.ends_with(&tagged("podgate")), "{sidecar}");
    assert!(webhook.ends_with(&tagged("podgate-webhook")), "{webhook}");
    let dockerfile = read("Dockerfile");
    let stages: Vec<&str> = dockerfile.lines().filter(|line| line.starts_with("FROM ")).collect();
    // Without a target, docker builds the last stage.
    assert!(stages.last().unwrap().ends_with(" AS sidecar"), "{stages:?}");
    assert!(webhook.contains(" --target webhook ") && stages.iter().any(|stage| stage.ends_with(" AS webhook")));
}

#[test]
fn readme_names_an_existing_scenario() {
    let page = Page::read("README.md");
    let (_, scenario) = page.lines().find_map(|line| line.split_once("SCENARIO=")).expect("a scenario");
    let name = scenario.split('`').next().unwrap();
    super::assert_all_exist(&[name], &super::sources().concat());
}
