# shellcheck shell=bash
# shellcheck disable=SC2154 # other sourced files set the variables
# Builds and starts KWOK, which simulates nodes and their kubelets. Sourced by cluster.

kwok_label=podgate.io/test-node=kwok

# start_kwok NODES: starts KWOK with this number of nodes. Only Pods with a nodeName run on them.
start_kwok() {
    local nodes=$1 module=$here/kwok full bin source i
    [[ $nodes =~ ^[1-9][0-9]{0,2}$ ]] || usage_error "start-kwok: the number of nodes must be between 1 and 999"
    full=$(awk '$1 == "sigs.k8s.io/kwok" { print $2 }' "$module/go.mod")
    bin=$cache/kwok/$full-$(cat "$module"/go.* | sha256sum | cut -c1-12)/bin
    if [[ ! -d $bin ]]; then
        need_go kwok
        new_build_dir "${bin%/bin}"
        cp "$module"/go.* "$build_dir/src"
        say "building KWOK $full into ${bin%/bin}: once, 3 minutes on 2 cores"
        compile "KWOK $full" 900 "" -o ../bin/ tool
        # KWOK's program lacks this stage, which makes nodes Ready.
        source=$(cd "$build_dir/src" && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)
        install -m 644 "$source/kustomize/stage/node/fast/node-initialize.yaml" "$build_dir/bin/"
        finish_build_dir "${bin%/bin}"
    fi
    lock
    stop kwok
    for ((i = 0; i < nodes; i++)); do
        # The taint keeps the scheduler from placing other Pods on these nodes.
        echo "---
apiVersion: v1
kind: Node
metadata: {name: kwok-$i, labels: {${kwok_label/=/: }}}
spec: {taints: [{key: ${kwok_label%=*}, effect: NoSchedule}]}
status: {allocatable: {cpu: 1k, memory: 4Ti, pods: 100k}, capacity: {cpu: 1k, memory: 4Ti, pods: 100k}}"
    done | kubectl_ours apply -f - >/dev/null
    # KWOK's streaming lists need etcd 3.5 or newer. With an older etcd, the leases of the nodes would expire.
    launch_inside kwok env KUBE_FEATURE_WatchListClient=false "$bin/kwok" --kubeconfig "$kubeconfig_inside" \
        --config "$bin/node-initialize.yaml,$here/kwok/stages.yaml" \
        "--manage-nodes-with-label-selector=$kwok_label" --node-lease-duration-seconds 40
    until_true 60 "KWOK's nodes are Ready" kwok \
        kubectl_ours wait --for=condition=Ready node --selector "$kwok_label" --timeout=5s
    say "started KWOK with $nodes nodes, kwok-0 and on"
}

# Stops KWOK and deletes its nodes. Delete the Pods first, because Pods do not end without KWOK.
stop_kwok() {
    lock
    stop kwok
    kubectl_ours delete node --selector "$kwok_label" --ignore-not-found >/dev/null
    say "stopped KWOK"
}
