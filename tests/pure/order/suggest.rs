//! Tests of proposed orders: the addresses that lead to a condition, the addresses that do not, and the resulting
//! order.

use podgate::order::suggest::{config_maps, suggest};
use serde_json::{Value, json};

/// Returns the edges of a Pod, such as `api > db` (`api ? db` if doubtful), and the order.
fn edges(containers: Value, more: Value) -> (Vec<String>, Option<String>) {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    pod["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let config = json!({"kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {
        "url": "http://localhost:5432/", "app.ini": "# old = 127.0.0.1:1111\ndb = 127.0.0.1:5432\nlisten 127.0.0.1:2222\n"}});
    let found = suggest(&pod, &config_maps([&pod, &config].into_iter()));
    let sign = |doubtful| if doubtful { "?" } else { ">" };
    let edge = |edge: &podgate::order::suggest::Edge| {
        let shown = edge.finding.at.of(&pod);
        assert!(shown.is_some(), "{:?} has no place", edge.finding);
        if let Some((span, text)) = edge.finding.span.clone().zip(shown.and_then(Value::as_str)) {
            assert!(edge.finding.message.contains(&text[span]), "{:?}", edge.finding);
        }
        format!("{} {} {}", edge.waiter, sign(edge.is_doubtful), edge.needed)
    };
    (found.edges.iter().map(edge).collect(), found.order)
}

#[test]
fn ports_are_found_in_variables_arguments_and_config_maps() {
    let db = json!({"name": "db", "ports": [{"containerPort": 5432}]});
    for (api, expected) in [
        (json!({"env": [{"name": "DB", "value": "postgres://u:p@localhost:5432/x"}]}), "api > db"),
        (json!({"env": [{"name": "DB", "value": "[::1]:5432"}]}), "api > db"),
        (
            json!({"env": [{"name": "DB", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "url"}}}]}),
            "api > db",
        ),
        (json!({"envFrom": [{"configMapRef": {"name": "conf"}}]}), "api > db"),
        (json!({"volumeMounts": [{"name": "conf", "mountPath": "/etc/app"}]}), "api > db"),
        (json!({"volumeMounts": [{"name": "conf", "mountPath": "/etc/url", "subPath": "other"}]}), ""),
        (json!({"command": ["/api", "--db", "127.0.0.1:5432"]}), "api > db"),
        (json!({"args": ["--db=127.0.0.1:5432"]}), "api > db"),
        (json!({"args": ["until nc -z localhost:5432; do sleep 1; done\n/api"]}), "api > db"),
        (json!({"args": ["--db=$(DB)"], "env": [{"name": "DB", "value": "localhost:5432"}]}), "api > db"),
        (json!({"args": ["--reload-url=http://localhost:5432/"]}), "api ? db"),
        (json!({"args": ["curl -X POST localhost:5432/-/reload"]}), "api ? db"),
        (json!({"args": ["--address", "127.0.0.1:5432"]}), ""),
        (json!({"args": ["--db-address", "127.0.0.1:5432"]}), "api > db"),
        (json!({"args": ["--listen=127.0.0.1:5432"]}), ""),
        (json!({"args": ["--bind-address", "127.0.0.1:5432"]}), ""),
        (json!({"env": [{"name": "LISTEN_ADDR", "value": "localhost:5432"}]}), ""),
        (json!({"env": [{"name": "DB", "value": "db.localhost:5432"}]}), ""),
        (json!({"env": [{"name": "DB", "value": "localhost:54321"}]}), ""),
        (json!({"env": [{"name": "DB", "value": "localhost:99999999999"}]}), ""),
        (json!({"env": [{"name": "DB", "value": "localhost:5432"}], "ports": [{"containerPort": 5432}]}), ""),
        (json!({"args": [7, null], "env": "x", "envFrom": [{}], "volumeMounts": [{}]}), ""),
    ] {
        let mut own = api.clone();
        own["name"] = json!("api");
        let volumes = json!({"volumes": [{"name": "conf", "configMap": {"name": "conf"}}]});
        let (found, order) = edges(json!([own, db]), volumes);
        assert_eq!(found.join(", "), expected, "{api}");
        assert_eq!(order.is_some(), expected.contains('>'), "{api}");
    }
}

#[test]
fn servers_are_found_by_port_probe_or_argument() {
    for (server, expected) in [
        (json!({"ports": [{"containerPort": 80}]}), "web > api"),
        (json!({"readinessProbe": {"httpGet": {"port": 80}}}), "web > api"),
        (json!({"livenessProbe": {"tcpSocket": {"port": "80"}}}), "web > api"),
        (json!({"startupProbe": {"grpc": {"port": 80}}}), "web > api"),
        (json!({"args": ["--port=80"]}), "web > api"),
        (json!({"args": ["--http-port", "80"]}), "web > api"),
        (json!({"args": ["-addr=:80"]}), "web > api"),
        (json!({"args": ["-instances=a:b:c=tcp:80"]}), "web > api"),
        (json!({"args": ["a:b:c?port=80"]}), "web > api"),
        (json!({"args": ["--metrics-bind-address=127.0.0.1:80"]}), "web > api"),
        (json!({"env": [{"name": "ADMIN_LISTEN", "value": "127.0.0.1:80 http2"}]}), "web > api"),
        (json!({"args": ["--workers=80"]}), ""),
        (json!({"ports": [{"containerPort": 8080}]}), ""),
    ] {
        let mut own = server.clone();
        own["name"] = json!("api");
        let web = json!({"name": "web", "env": [{"name": "API", "value": "http://localhost:80"}]});
        assert_eq!(edges(json!([own, web]), json!({})).0.join(", "), expected, "{server}");
    }
    let web = json!({"name": "web", "env": [{"name": "API", "value": "http://localhost:80"}]});
    let server = |name: &str| json!({"name": name, "ports": [{"containerPort": 80}]});
    assert_eq!(
        edges(json!([web, server("a"), server("b")]), json!({})),
        (vec!["web ? a".into(), "web ? b".into()], None)
    );
    let mut native = server("proxy");
    native["restartPolicy"] = json!("Always");
    assert_eq!(edges(json!([web]), json!({"initContainers": [native]})), (vec!["web ? proxy".into()], None));
}

#[test]
fn sockets_need_a_shared_volume() {
    let with = |name: &str, args: &[&str], read_only: bool| json!({"name": name, "args": args, "volumeMounts": [{"name": "run", "mountPath": "/run/x/", "readOnly": read_only}]});
    let client = with("web", &["fastcgi_pass unix:/run/x/app.sock;"], false);
    for (others, expected) in [
        (json!([client, with("php", &[], false)]), "web > php"),
        (json!([client, with("php", &[], true)]), ""),
        (json!([client, {"name": "php"}]), ""),
        (json!([client, with("php", &["--listen=/run/x/app.sock"], false), with("log", &[], false)]), "web > php"),
        (json!([client, with("php", &[], false), with("log", &[], false)]), "web ? php, web ? log"),
        (
            json!([
                with("driver", &["--endpoint=unix:///run/x/csi.sock"], false),
                with("provisioner", &["--csi-address=/run/x/csi.sock"], false),
                with("attacher", &["--csi-address", "/run/x/csi.sock"], false)
            ]),
            "provisioner > driver, attacher > driver",
        ),
        // Both containers are clients of a server outside the Pod.
        (json!([client, with("other", &["/run/x/app.sock"], false)]), ""),
    ] {
        assert_eq!(edges(others.clone(), json!({})).0.join(", "), expected, "{others}");
    }
}

#[test]
fn order_has_the_steps_of_the_edges() {
    let own = |name: &str, port: u16, needs: &[u16]| {
        let env: Vec<Value> = needs
            .iter()
            .map(|port| json!({"name": format!("A{port}"), "value": format!("localhost:{port}")}))
            .collect();
        json!({"name": name, "ports": [{"containerPort": port}], "env": env})
    };
    for (containers, order) in [
        (
            json!([
                own("web", 80, &[81, 82]),
                own("api", 81, &[83]),
                own("cache", 82, &[83]),
                own("db", 83, &[]),
                own("log", 84, &[])
            ]),
            Some("db, api & cache, web"),
        ),
        (json!([own("a", 80, &[81]), own("b", 81, &[80])]), None),
        (json!([own("a", 80, &[]), own("b", 81, &[])]), None),
    ] {
        assert_eq!(edges(containers, json!({})).1.as_deref(), order);
    }
    let pod = json!({"spec": {"containers": [own("a", 80, &[81]), own("b", 81, &[80])]}});
    assert_eq!(suggest(&pod, &config_maps([].into_iter())).cycle.as_deref(), Some("a waits for b, b waits for a"));
}

/// Before a fix, each case took minutes or led to an invalid order.
#[test]
fn hostile_manifests_take_little_time() {
    let bomb: Vec<Value> =
        (0..40).map(|at| json!({"name": format!("A{at}"), "value": format!("$(A{0})$(A{0})", at + 1)})).collect();
    let long = "localhost:80 ".repeat(100_000);
    let lines = "localhost:80\n".repeat(20_000);
    for own in [
        json!({"name": "a", "args": ["$(A0)"], "env": bomb}),
        json!({"name": "a", "args": [long]}),
        json!({"name": "a", "args": [lines]}),
    ] {
        edges(json!([own, {"name": "b", "ports": [{"containerPort": 80}]}]), json!({}));
    }
    let same = json!({"name": "A b", "args": ["localhost:80"]});
    assert_eq!(edges(json!([same, same, {"name": "b", "ports": [{"containerPort": 80}]}]), json!({})), (vec![], None));
}
