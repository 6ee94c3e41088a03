//! Tests that `inject` and `uninject` leave all other text unchanged.

use super::{POD, assert_lines_kept, done, run};

/// Documents in unusual styles that declare no order.
const STRANGE: &[&str] = &[
    "",
    "\n\n",
    "# only a comment",
    "\u{feff}a: 1\n",
    "a: 1",
    "a: 1\r\nb:\r\n- x\r\n",
    "---\n---\n--- # c\na: 1\n---\n",
    "a: |\n  x\n   y\n\n\nb: >-\n    folded\n    text\n",
    "a: &x {b: 1, c: [1, 2,]}   # c\nd: *x\ne: {<<: *x}\n",
    "? a\n: b\n1: a\ntrue: b\n1.5: c\n",
    "a: 'it''s'\nb: \"\\u00fc\\n\"\nc: plain  text # c\n",
    "kind: Pod\nspec:\n  containers:\n  - name: a\n    image: b\n",
    "{\"kind\": \"Pod\", \"spec\": {\"containers\": [{\"name\": \"a\"}]}}",
    "{\"a\": 1}\n{\"b\": 2}\n",
    "{\"a\": 1}\n---\n{\"b\": 2}\n",
    "{a: 1}\n",
    "a: |\n  ---\n  --- x\n",
    "a: 1\n---   \nb: 1\r\n---\r\nc: 1",
    "a: 1\n...\nwhat follows is {{not read}\n---\nb: 2\n...\n",
    "a: b\n  ...\n  ...c\n",
    "kind: List\nitems: []\n",
    "- a\n- b\n",
    "just text\n",
    "a: yes\nb: 0755\nc: 1_000\nd: 12:30:45\n",
];

#[test]
fn documents_without_an_order_keep_their_bytes() {
    for text in STRANGE {
        for command in ["inject", "uninject"] {
            let run = run(&[command, "-"], text);
            assert_eq!((run.code, run.out.as_str()), (0, *text), "{command}: {}", run.err);
            assert!(run.err.contains("nothing "), "{}", run.err);
        }
    }
}

#[test]
fn documents_around_an_injected_one_keep_their_bytes() {
    let around: Vec<&str> =
        STRANGE.iter().copied().filter(|text| !text.starts_with(['{', '\u{feff}']) && !text.contains("...")).collect();
    for text in around {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let whole = format!("{text}{end}---\n{POD}---\n{text}");
        let out = done(&["inject", "-"], &whole);
        let (head, tail) = (format!("{text}{end}---\n"), format!("---\n{text}"));
        assert!(out.starts_with(&head) && out.ends_with(&tail) && out.len() > whole.len() + 1000, "{out}");
    }
}

#[test]
fn inject_keeps_other_lines_and_line_ends() {
    let out = done(&["inject", "-"], POD);
    assert_lines_kept(POD, &out, &["command:"]);
    let windows = POD.replace('\n', "\r\n");
    let out = done(&["inject", "-"], &windows);
    assert_eq!(out.matches('\n').count(), out.matches("\r\n").count(), "a line has no CRLF");
    assert_lines_kept(&windows, &out, &["command:"]);
    assert_eq!(done(&["uninject", "-"], &out), windows);
}

#[test]
fn inject_is_idempotent_and_uninject_reverts_it() {
    let job = POD.replace("kind: Pod\n", "kind: Job\n").replace("apiVersion: v1", "apiVersion: batch/v1");
    let job = job.replace("podgate.io/order", "example.com/order");
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n- # the pod\n{}\n# the end\n",
        POD.lines()
            .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") })
            .collect::<String>()
            .trim_end()
    );
    let pretty = serde_json::to_string_pretty(&value(POD)).unwrap();
    let compact = value(POD).to_string();
    let stream = format!("{compact}\n{pretty}\n");
    let bare = POD.trim_end().to_owned();
    for text in
        [POD.to_owned(), list, pretty, compact, stream, bare, format!("---\n{POD}...\n"), format!("{POD}---\n{job}")]
    {
        let once = done(&["inject", "-"], &text);
        assert!(once.len() > text.len() + 1000, "{once}");
        assert_eq!(done(&["inject", "-"], &once), once);
        assert_eq!(done(&["uninject", "-"], &once), text);
    }
}

#[test]
fn what_a_person_added_stays_and_uninject_reverts_it() {
    let image = "corp.example/podgate:9";
    let once = done(&["inject", "--image", image, "-"], POD);
    for flags in ["--post-file, /tmp/out", "--command-timeout=5m", "--on-error, continue, --log-format, json"] {
        let edited = once.replacen("entrypoint, ", &format!("entrypoint, {flags}, "), 1);
        assert_ne!(edited, once);
        let again = run(&["inject", "-"], &edited);
        assert_eq!((again.out.as_str(), again.err.as_str(), again.code), (&*edited, "", 0));
        assert_eq!(done(&["uninject", "-"], &edited), POD);
        let changed = edited.replace("podgate.io/order: db, api", "podgate.io/order: db=Started, api");
        let again = run(&["inject", "-"], &changed);
        let gate = format!("--until, db=Started, --timeout, 5m, {}, \"--\", ", flags.replace('=', ", "));
        assert!(again.out.contains(&gate), "{gate}: {}", again.out);
        assert!(again.err.contains(&format!("Pod/shop: injected, keeps image {image}")), "{}", again.err);
        assert_eq!(done(&["uninject", "-"], &again.out), POD.replace("order: db, api", "order: db=Started, api"));
    }
    let other = done(&["inject", "--image", "corp.example/podgate:10", "-"], &once);
    assert_eq!(other, once.replace(image, "corp.example/podgate:10"));
}

#[test]
fn comments_below_a_container_move_with_it() {
    let pod = "\
apiVersion: v1
kind: Pod
metadata: {name: shop, annotations: {podgate.io/order: \"db, web\", podgate.io/mode: post-start}}
spec:
  containers:
  # the web server
  - name: web
    image: x

    # livenessProbe: of web
  # the database
  - name: db
    image: y
      # resources: of db
  # the volumes
  volumes: []
";
    let out = done(&["inject", "-"], pod);
    let at = |text: &str| out.find(text).unwrap_or_else(|| panic!("{text} is missing in\n{out}"));
    let order =
        ["\n  # the database\n  - name: db", "\n      # resources: of db\n", "\n  # the web server\n  - name: web"];
    let order = [&order[..], &["\n\n    # livenessProbe: of web\n", "\n  # the volumes\n  volumes:"]].concat();
    assert!(order.iter().map(|text| at(text)).is_sorted(), "{out}");
    assert_eq!(done(&["uninject", "-"], &out), pod);
}

/// Tests a comment at each position and column, with and without a blank line above and a field below the list.
#[test]
fn comments_of_each_container_survive_a_move() {
    let mut moved = 0;
    for (position, column) in (0..3).flat_map(|position| (0..9).map(move |column| (position, column))) {
        for (blank, below, end) in [("", "", "\n"), ("\n", "", "\n"), ("", "  hostNetwork: false\n", ""), ("", "", "")]
        {
            let mut pod =
                "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n    podgate.io/order: c, b, a\n    \
                           podgate.io/mode: post-start\nspec:\n  containers:\n"
                    .to_owned();
            for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
                pod += &format!("  - name: {name}\n    image: x\n");
                if index == position {
                    pod += &format!("{blank}{:column$}# of {name}\n", "");
                }
            }
            let pod = format!("{pod}{below}").trim_end().to_owned() + end;
            let run = run(&["inject", "-"], &pod);
            assert_eq!(run.code, 0, "{}\n{pod}", run.err);
            assert_eq!(done(&["uninject", "-"], &run.out), pod);
            if column > 2 {
                let name = ["a", "b", "c"][position];
                let own = run.out.split(&format!("\n  - name: {name}\n")).nth(1).unwrap();
                let own = own.split(&format!("\n{:column$}# of {name}\n", "")).next().unwrap();
                assert!(
                    own.len() < 1200 && !own.contains("\n  - name: ") && !own.contains("\n  volumes:"),
                    "{}",
                    run.out
                );
                moved += 1;
            }
        }
    }
    assert_eq!(moved, 3 * 6 * 4);
}

/// Templates of ytt have comments as list items, which are empty for Kubernetes.
#[test]
fn empty_items_keep_their_comments() {
    let volume = "- name: q\n{i}  emptyDir: {}";
    for item in [
        "- #@ f()",
        "-",
        "-   # c",
        "-\n{i}#@ f()",
        "#@ if x:\n{i}- #@ f()",
        "- #@ f()\n{i}{v}",
        "{v}\n{i}- #@ f()",
        "{v}\n{i}- # c\n{i}{v}",
    ] {
        for (field, base, indent) in [("volumes", 2, 0), ("volumes", 2, 2), ("env", 4, 0), ("volumeMounts", 4, 2)] {
            let margin = " ".repeat(base + indent);
            let items = item.replace("{v}", volume).replace("{i}", &margin);
            let list = format!("{:base$}{field}:\n{margin}{items}\n", "");
            let at = if base == 2 { "  containers:\n" } else { "    image: api:1\n" };
            for text in [POD.replace(at, &format!("{list}{at}")), POD.replace(at, &format!("{at}{list}"))] {
                if base == 2 && text.contains(&format!("containers:\n{list}")) {
                    continue;
                }
                let once = done(&["inject", "-"], &text);
                for line in items.lines().filter(|line| line.contains('#')) {
                    assert!(once.contains(&format!("{line}\n")), "{line} is missing in {once}");
                }
                assert_eq!(done(&["uninject", "-"], &once), text);
            }
        }
    }
}

fn value(text: &str) -> serde_json::Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn compact_json_stays_compact() {
    let out = done(&["inject", "-"], &value(POD).to_string());
    let pod: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(pod["spec"]["initContainers"][0]["name"], "podgate");
    assert!(!out.contains('\n'), "the output has several lines");
}

#[test]
fn inject_expands_aliases_of_changed_values() {
    let shared = POD
        .replace(
            "    image: api:1\n",
            "    image: api:1\n    volumeMounts: &mounts\n    - {name: data, mountPath: /data}\n",
        )
        .replace("    image: postgres:17\n", "    image: postgres:17\n    volumeMounts: *mounts   # as above\n")
        + "  volumes:\n  - {name: data, emptyDir: {}}\n";
    let out = done(&["inject", "-"], &shared);
    let pod = value(&out);
    for (index, own) in [(0, Some("api")), (1, None)] {
        let mounts = pod["spec"]["containers"][index]["volumeMounts"].as_array().unwrap();
        let paths: Vec<_> =
            mounts.iter().map(|mount| (mount["mountPath"].as_str().unwrap(), mount["subPath"].as_str())).collect();
        assert!(
            paths.contains(&("/data", None)) && own.is_none_or(|_| paths.contains(&("/podgate-self", own))),
            "{paths:?}"
        );
    }
    assert_eq!(done(&["inject", "-"], &out), out);
    assert_eq!(value(&done(&["uninject", "-"], &out)), value(&shared));
}
