//! Tests of the rules that need no declared order.

use podgate::order::finding::Finding;
use podgate::order::lint::{Target, check_plain};
use podgate::order::plan::{KnownFacts, plan};
use serde_json::{Value, json};

fn check(pod: &Value, is_job: bool) -> Vec<Finding> {
    let workload = json!({});
    let target = Target { workload: is_job.then_some(&workload), ..Target::default() };
    check_plain(pod, None, target)
}

fn rules(pod: &Value, is_job: bool) -> Vec<&'static str> {
    check(pod, is_job).iter().map(|finding| finding.rule).collect()
}

/// Returns a Pod with the native sidecar `proxy` on port 3306, and the regular container `app`.
fn with_native(proxy: Value, app: Value) -> Value {
    let mut sidecar =
        json!({"name": "proxy", "restartPolicy": "Always", "readinessProbe": {"tcpSocket": {"port": 3306}}});
    merge(&mut sidecar, proxy);
    let mut own = json!({"name": "app"});
    merge(&mut own, app);
    json!({"spec": {"initContainers": [sidecar], "containers": [own]}})
}

fn merge(into: &mut Value, from: Value) {
    let Value::Object(fields) = from else { panic!("{from}") };
    fields.into_iter().for_each(|(key, value)| into[key] = value);
}

#[test]
fn native_sidecar_without_startup_probe_warns_if_a_later_container_names_its_port() {
    for (proxy, app, expected) in [
        (json!({}), json!({"env": [{"name": "DB", "value": "mysql://127.0.0.1:3306/x"}]}), true),
        (json!({}), json!({"args": ["--db=localhost:3306"]}), true),
        (
            json!({}),
            json!({"env": [{"name": "DB_HOST", "value": "localhost"}, {"name": "DB_PORT", "value": 3306}]}),
            true,
        ),
        (json!({}), json!({"command": ["app", "--db", "[::1]:3306"]}), true),
        (json!({}), json!({"env": [{"name": "P", "value": "3306"}], "args": ["--db=localhost:$(P)"]}), true),
        // The port is in the sidecar's arguments, or has a name.
        (
            json!({"args": ["--port=3307"], "readinessProbe": {"httpGet": {"port": 9090}}}),
            json!({"args": ["--db=localhost:3307"]}),
            true,
        ),
        (
            json!({"ports": [{"name": "db", "containerPort": 3308}], "readinessProbe": {"tcpSocket": {"port": "db"}}}),
            json!({"args": ["--db=localhost:3308"]}),
            true,
        ),
        // These addresses have another port or host, belong to the container itself, or are used only later.
        (json!({}), json!({"args": ["--db=localhost:3309"]}), false),
        (json!({}), json!({"args": ["--db=db.example:3306"]}), false),
        (json!({}), json!({"args": ["--listen=localhost:3306"]}), false),
        (json!({}), json!({"args": ["--db=localhost:3306"], "ports": [{"containerPort": 3306}]}), false),
        (json!({}), json!({"args": ["--quit-url=http://localhost:3306/quitquitquit"]}), false),
        // A guess from the name of the variable, and a client that retries.
        (json!({}), json!({"env": [{"name": "MYSQL_HOST", "value": "localhost"}]}), false),
        (json!({}), json!({"image": "mysqld-exporter", "args": ["--db=localhost:3306"]}), false),
        // The kubelet waits.
        (json!({"startupProbe": {"tcpSocket": {"port": 3306}}}), json!({"args": ["--db=localhost:3306"]}), false),
        (
            json!({"lifecycle": {"postStart": {"exec": {"command": ["proxy", "wait"]}}}}),
            json!({"args": ["--db=localhost:3306"]}),
            false,
        ),
        // Without a readinessProbe, nothing tells that the user expects Kubernetes to wait.
        (
            json!({"readinessProbe": null, "ports": [{"containerPort": 3306}]}),
            json!({"args": ["--db=localhost:3306"]}),
            false,
        ),
    ] {
        let pod = with_native(proxy, app);
        let expected: &[&str] = if expected { &["native-not-awaited"] } else { &[] };
        assert_eq!(rules(&pod, false), expected, "{pod:#}");
    }
    let pod = with_native(json!({}), json!({"args": ["--db=localhost:3306"]}));
    let finding = check(&pod, false).pop().unwrap();
    assert_eq!(finding.at.to_string(), "spec.initContainers[0].readinessProbe");
    assert_eq!(
        finding.message,
        "Kubernetes does not wait for the readinessProbe of proxy: it starts app as soon as proxy runs, but the argument \
         --db of app names localhost:3306, a port of proxy"
    );
    assert!(finding.fix.starts_with("give proxy a startupProbe, for which Kubernetes waits: {"), "{}", finding.fix);
}

#[test]
fn init_containers_wait_for_native_sidecars_before_them() {
    let with_init = |init: Value| {
        let mut pod = with_native(json!({}), json!({"args": ["--db=localhost:3306"]}));
        pod["spec"]["initContainers"].as_array_mut().unwrap().push(init);
        rules(&pod, false)
    };
    assert_eq!(with_init(json!({"name": "migrate", "args": ["--db=localhost:3306"]})), ["native-not-awaited"]);
    // This init container delays the application.
    let wait = json!({"name": "wait", "command": ["sh", "-c", "until nc -z localhost 3306; do sleep 1; done"]});
    assert_eq!(with_init(wait), ["shell-wait"]);
    let wait = json!({"name": "wait", "command": ["sh", "-c", "./wait-for-it.sh localhost:3306"]});
    assert_eq!(with_init(wait), ["shell-wait"]);
    let copy = json!({"name": "copy", "command": ["sh", "-c", "for i in a b; do cp $i /x; done"]});
    assert_eq!(with_init(copy), ["native-not-awaited"]);
}

#[test]
fn declared_order_answers_the_rules() {
    let mut pod = with_native(json!({}), json!({"command": ["app", "--db=localhost:3306"]}));
    pod["metadata"] = json!({"annotations": {"podgate.io/order": "proxy, app"}});
    let plan = plan(&pod, &KnownFacts::default()).unwrap();
    assert_eq!(check_plain(&pod, Some(&plan), Target::default()), []);
    assert_eq!(rules(&pod, false), ["native-not-awaited"]);
    pod["spec"]["containers"][0]["command"] = json!(["sh", "-c", "until nc -z localhost 3306; do sleep 1; done"]);
    assert_eq!(rules(&pod, false), ["shell-wait"]);
    assert_eq!(check_plain(&pod, Some(&plan), Target::default()), []);
}

/// Returns a Pod in which `app` runs a shell script beside `other`.
fn with_script(script: &str, other: Value) -> Value {
    json!({"spec": {"containers": [{"name": "app", "command": ["sh", "-c"], "args": [script]}, other]}})
}

#[test]
fn shell_loops_that_wait_for_another_container_are_noted() {
    let db = || json!({"name": "db", "readinessProbe": {"tcpSocket": {"port": 5432}}});
    for script in [
        "until nc -z localhost 5432; do sleep 1; done; exec app",
        "until nc -z -w 2 127.0.0.1 5432\ndo\n  sleep 1\ndone\nexec app",
        "while ! nc -z localhost 5432 </dev/null; do sleep 1; done",
        "while ! curl -sf http://[::1]:5432/healthz; do sleep 1; done",
        "until wget -qO- http://127.0.0.1:5432/ >/dev/null 2>&1; do sleep 1; done",
        "until pg_isready -h localhost -p 5432 -U app; do sleep 1; done",
        "until pg_isready --host=localhost --port=5432; do sleep 1; done",
        "until pg_isready --host=127.0.0.1; do sleep 1; done",
        "until psql -h 127.0.0.1 -c 'select 1'; do sleep 1; done",
        "until (echo > /dev/tcp/localhost/5432) 2>/dev/null; do sleep 1; done",
        "until timeout 1 bash -c '</dev/tcp/localhost/5432'; do sleep 1; done",
        "while [ \"$(curl -s -o /dev/null -w '%{http_code}' localhost:5432)\" != 200 ]; do sleep 1; done",
        "timeout 60 sh -c 'until curl localhost:5432; do sleep 1; done'",
        "./wait-for-it.sh localhost:5432 -- app",
        "/usr/bin/wait-for-it --host=localhost --port=5432",
        "dockerize -wait tcp://localhost:5432 app --listen=localhost:80",
    ] {
        let pod = with_script(script, db());
        let found = check(&pod, false);
        assert_eq!(found.iter().map(|finding| finding.rule).collect::<Vec<_>>(), ["shell-wait"], "{script}");
        assert_eq!(found[0].at.to_string(), "spec.containers[0]");
        assert_eq!(found[0].fix, "add podgate's annotation podgate.io/order: \"db, app\", and remove the loop");
    }
    // The default port of a URL.
    let web = json!({"name": "web", "ports": [{"containerPort": 80}]});
    assert_eq!(
        rules(&with_script("until curl -s http://localhost/healthz; do sleep 1; done", web), false),
        ["shell-wait"]
    );
}

#[test]
fn other_shell_loops_are_not_noted() {
    for script in [
        // Load, a wait for the end of a container, another host, another port, a comment.
        "while true; do curl localhost:5432; sleep 1; done",
        "while curl -s localhost:5432; do sleep 1; done",
        "until ! nc -z localhost 5432; do sleep 1; done",
        "while true; do if ! nc -z localhost 5432; then break; fi; done",
        "until curl -XPOST localhost:5432/quitquitquit; do sleep 1; done",
        "until nc -z db 5432; do sleep 1; done",
        "until nc -z localhost 5433; do sleep 1; done",
        "until nc -z localhost.example 5432; do sleep 1; done",
        "until nc -z localhost; do sleep 5432; done",
        "until test -e /ready; do sleep 1; done; exec app --db localhost:5432",
        "# until nc -z localhost 5432; do sleep 1; done",
        "nc -z localhost 5432 || exit 1",
        "until pg_isready; do sleep 1; done",
        "wait-for-it db:5432 -- app --db=localhost:5432",
    ] {
        let pod = with_script(script, json!({"name": "db", "ports": [{"containerPort": 5432}]}));
        assert_eq!(rules(&pod, false), [] as [&str; 0], "{script}");
    }
    // A container that waits for its own port, and a port of two containers.
    let script = json!(["sh", "-c", "app & until nc -z localhost 80; do sleep 1; done; wait"]);
    let own = json!({"name": "app", "command": script, "ports": [{"containerPort": 80}]});
    assert_eq!(rules(&json!({"spec": {"containers": [own]}}), false), [] as [&str; 0]);
    let [a, b] = ["a", "b"].map(|name| json!({"name": name, "ports": [{"containerPort": 80}]}));
    let pod = json!({"spec": {"containers": [{"name": "app", "command": script}, a, b]}});
    assert_eq!(rules(&pod, false), [] as [&str; 0]);
    // Kubernetes starts the server only when the init container has exited.
    let server = json!({"name": "app", "ports": [{"containerPort": 80}]});
    let pod = json!({"spec": {"initContainers": [{"name": "wait", "command": script}], "containers": [server]}});
    assert_eq!(rules(&pod, false), [] as [&str; 0]);
}

#[test]
fn fix_of_a_shell_loop_depends_on_the_other_container() {
    let script = "until nc -z localhost 80; do sleep 1; done";
    let fix = |pod: &Value| check(pod, false).into_iter().map(|finding| finding.fix).collect::<Vec<_>>();
    let with_native = |sidecar: Value| {
        let mut pod = with_script(script, json!({"name": "other"}));
        pod["spec"]["initContainers"] = json!([sidecar]);
        fix(&pod)
    };
    let probe = "{\"tcpSocket\":{\"port\":80},\"periodSeconds\":1,\"failureThreshold\":300}";
    let native = json!({"name": "x", "restartPolicy": "Always", "ports": [{"containerPort": 80}]});
    assert_eq!(with_native(native), [format!("give x the startupProbe {probe}, and remove the loop")]);
    let awaited = json!({"name": "x", "restartPolicy": "Always", "startupProbe": {"tcpSocket": {"port": 80}}});
    assert_eq!(with_native(awaited), [] as [&str; 0], "Kubernetes waits already");
    let helper = json!({"name": "proxy", "ports": [{"containerPort": 80}]});
    let expected = format!("make proxy a native sidecar with the startupProbe {probe}, and remove the loop");
    assert_eq!(fix(&with_script(script, helper)), [expected]);
    // The kubelet cannot probe a loopback address, so an order is better.
    let ready = |name: &str| {
        format!(
            "add podgate's annotation podgate.io/order: \"{name}, app\", ready.podgate.io/{name}: \"tcp://127.0.0.1:80\", \
             and remove the loop"
        )
    };
    let local = json!({"name": "proxy", "args": ["--listen=127.0.0.1:80"]});
    assert_eq!(fix(&with_script(script, local)), [ready("proxy")]);
    assert_eq!(fix(&with_script(script, json!({"name": "db", "ports": [{"containerPort": 80}]}))), [ready("db")]);
}

#[test]
fn hook_that_waits_for_its_own_pod_warns() {
    for (script, expected) in [
        ("kubectl wait --for=condition=Ready pod/$HOSTNAME", true),
        ("kubectl wait --for condition=Ready pod \"${HOSTNAME}\" --timeout=60s", true),
        ("kubectl wait --for=condition=Ready pod/$(hostname)", true),
        ("until kubectl get pod $POD_NAME | grep Running; do sleep 1; done", true),
        ("while [ \"$(kubectl get po $POD_NAME -o jsonpath={.status.phase})\" != Running ]; do sleep 1; done", true),
        ("until curl -s https://kubernetes/api/v1/namespaces/x/pods/$POD_NAME | grep Ready; do sleep 1; done", true),
        ("kubectl wait --for=condition=Ready pod/other-0", false),
        ("kubectl wait --for=condition=Ready pod/$OTHER", false),
        ("kubectl wait --for=condition=PodScheduled pod/$HOSTNAME", false),
        ("kubectl label pod $HOSTNAME status=started", false),
        ("until kubectl label pod $HOSTNAME started=yes; do sleep 1; done", false),
        ("(kubectl wait --for=condition=Ready pod/$HOSTNAME; app-init) &", false),
        ("nohup kubectl wait --for=condition=Ready pod/$HOSTNAME", false),
        ("until nc -z localhost 80; do sleep 1; done", false),
    ] {
        let name = json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
        let hook = json!({"postStart": {"exec": {"command": ["sh", "-c", script]}}});
        let container = json!({"name": "app", "env": [name], "lifecycle": hook});
        let pod = json!({"spec": {"containers": [container]}});
        let expected: &[&str] = if expected { &["hook-awaits-itself"] } else { &[] };
        assert_eq!(rules(&pod, false), expected, "{script}");
    }
}

#[test]
fn probes_that_cannot_reach_the_program_warn() {
    let probe = json!({"httpGet": {"port": 8080}});
    for (own, expected) in [
        (json!({"args": ["--listen=127.0.0.1:8080"]}), 1),
        (json!({"args": ["--listen", "localhost:8080"]}), 1),
        (json!({"args": ["--address=[::1]:8080"]}), 1),
        (json!({"args": ["--web.listen-address=127.0.0.1:8080"]}), 1),
        (json!({"command": ["sh", "-c", "exec app --bind 127.0.0.1:8080"]}), 1),
        (json!({"args": ["--host", "127.0.0.1", "--port", "8080"]}), 1),
        (json!({"command": ["uvicorn", "app:app", "--host=127.0.0.1", "--port=8080"]}), 1),
        (json!({"env": [{"name": "LISTEN_ADDR", "value": "127.0.0.1:8080"}]}), 1),
        (json!({"env": [{"name": "PORT", "value": "8080"}], "args": ["--listen=127.0.0.1:$(PORT)"]}), 1),
        (json!({"image": "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.8.0", "args": ["--health-check"]}), 1),
        (json!({"image": "x/cloud-sql-proxy:2.8.0", "readinessProbe": {"tcpSocket": {"port": 5432}}}), 1),
        (json!({"command": ["/cloud_sql_proxy", "-instances=p:r:i=tcp:8080"]}), 1),
        (json!({"env": [{"name": "INSTANCES", "value": "p:r:i=tcp:localhost:8080"}]}), 1),
        (json!({"command": ["/cloud_sql_proxy", "-instances=p:r:i=tcp:0.0.0.0:8080"]}), 0),
        // A named port.
        (
            json!({"args": ["--listen=127.0.0.1:81"], "ports": [{"name": "web", "containerPort": 81}],
            "readinessProbe": {"tcpSocket": {"port": "web"}}}),
            1,
        ),
        // Another address, another port, a client.
        (json!({"args": ["--listen=0.0.0.0:8080"]}), 0),
        (json!({"args": ["--listen=:8080"]}), 0),
        (json!({"args": ["--listen=127.0.0.1:8080", "--listen=10.0.0.1:8080"]}), 0),
        (json!({"args": ["--listen=http://127.0.0.1:8080,http://$(POD_IP):8080"]}), 0),
        (json!({"args": ["--listen=127.0.0.1:80801"]}), 0),
        (json!({"args": ["--metrics-bind-address=127.0.0.1:8443"]}), 0),
        (json!({"args": ["--host", "127.0.0.1", "--port", "8081"]}), 0),
        (json!({"args": ["--host", "127.0.0.1", "--host", "0.0.0.0", "--port", "8080"]}), 0),
        (json!({"env": [{"name": "VAULT_ADDR", "value": "http://127.0.0.1:8080"}]}), 0),
        (json!({"args": ["--upstream=http://127.0.0.1:8080"]}), 0),
        (json!({"image": "x/cloud-sql-proxy:2.8.0", "args": ["--health-check", "--http-address=0.0.0.0"]}), 0),
        // Without the flag, no program listens on the port of the health checks.
        (json!({"image": "x/cloud-sql-proxy:2.8.0"}), 0),
        (
            json!({"args": ["--bind=127.0.0.1:8080"], "readinessProbe": {"httpGet": {"port": 8080, "host": "127.0.0.1"}}}),
            0,
        ),
        (json!({"args": ["--listen=127.0.0.1:8080"], "readinessProbe": {"exec": {"command": ["true"]}}}), 0),
    ] {
        let mut container = json!({"name": "app", "readinessProbe": probe});
        merge(&mut container, own);
        let pod = json!({"spec": {"containers": [container]}});
        assert_eq!(rules(&pod, false), vec!["probe-on-loopback"; expected], "{pod:#}");
    }
}

#[test]
fn jobs_with_a_server_never_complete() {
    let job = |server: Value, other: Value, spec: Value| {
        let mut own = json!({"name": "server"});
        merge(&mut own, server);
        let mut main = json!({"name": "main", "image": "main", "command": ["main"]});
        merge(&mut main, other);
        let mut pod = json!({"spec": {"restartPolicy": "Never", "containers": [main, own]}});
        merge(&mut pod["spec"], spec);
        pod
    };
    let none = || json!({});
    for (server, other, spec, expected) in [
        (
            json!({"image": "gcr.io/cloudsql-docker/gce-proxy:1.28.0", "command": ["/cloud_sql_proxy"]}),
            none(),
            none(),
            true,
        ),
        (json!({"image": "r/cloud-sql-proxy:2", "args": ["p:r:i"]}), none(), none(), true),
        (json!({"image": "envoyproxy/envoy:v1", "args": ["-c", "/e.yaml"]}), none(), none(), true),
        (json!({"image": "docker:27-dind"}), none(), none(), true),
        (json!({"image": "postgres@sha256:0"}), none(), json!({"restartPolicy": "OnFailure"}), true),
        (json!({"image": "busybox", "command": ["tail", "-F", "/log"]}), none(), none(), true),
        (json!({"image": "busybox", "command": ["sh", "-c", "while true; do sleep 5; done"]}), none(), none(), true),
        // A client of the same image, a wrapper, a server that another container ends.
        (json!({"image": "postgres", "command": ["psql"]}), none(), none(), false),
        (json!({"image": "redis", "args": ["redis-cli", "ping"]}), none(), none(), false),
        (json!({"image": "docker:27", "args": ["docker", "build"]}), none(), none(), false),
        (json!({"image": "nginx", "command": ["sh", "-c", "timeout 60 nginx"]}), none(), none(), false),
        (
            json!({"image": "busybox", "command": ["sh", "-c", "while true; do test -e x && exit; done"]}),
            none(),
            none(),
            false,
        ),
        (json!({"image": "envoy"}), json!({"args": ["; curl -X POST localhost:9901/quitquitquit"]}), none(), false),
        (json!({"image": "nginx"}), json!({"args": ["; pkill nginx"]}), none(), false),
        // These words end no container.
        (json!({"image": "nginx"}), json!({"env": [{"name": "NO_KILL", "value": "quit"}]}), none(), true),
        (json!({"image": "nginx"}), json!({"command": ["mosquitto_pub", "-t", "skills"]}), none(), true),
        (json!({"image": "nginx"}), none(), json!({"shareProcessNamespace": true}), false),
        (json!({"image": "nginx"}), none(), json!({"restartPolicy": "Always"}), false),
        (json!({"image": "nginx"}), json!({"image": "redis", "command": null}), none(), false),
    ] {
        let pod = job(server, other, spec);
        let expected: &[&str] = if expected { &["job-never-completes"] } else { &[] };
        assert_eq!(rules(&pod, true), expected, "{pod:#}");
    }
    let pod = job(json!({"image": "nginx"}), none(), none());
    assert_eq!(rules(&pod, false), [] as [&str; 0], "a bare Pod");
    assert_eq!(
        check(&pod, true).pop().unwrap().fix,
        "move server to initContainers, with these fields; server: restartPolicy: Always; or add the annotation podgate.io/job-sidecars: \"server\""
    );
}
