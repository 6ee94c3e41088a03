# shellcheck shell=bash
# shellcheck disable=SC2154 # other sourced files set the variables
# Starts and stops the cluster. Sourced by cluster.

write_network() {
    ip netns add "$name"
    # The node's interface is a bridge without ports, because not every kernel has dummy interfaces. The cluster has no
    # access to other networks.
    local ipv6=true
    [[ $addresses == IPv4 ]] || ipv6='cd /proc/sys/net/ipv6/conf && echo 0 >default/accept_dad && echo 1 >all/forwarding'
    inside sh -c "
        $ipv6 &&
        ip link set lo up &&
        ip link add node0 type bridge &&
        ip address add $node_ip dev node0 &&
        ip address add $service_ip dev node0 &&
        ip link set node0 up &&
        ip ${addresses/IPv/-} route add default dev node0 &&
        echo 1 >/proc/sys/net/ipv4/ip_forward" || die "cannot set up the network namespace $name (above)"
    mkdir -p "$state/cni"
    cat >"$state/cni/10-podgate.conflist" <<END
{"cniVersion": "0.4.0", "name": "podgate", "plugins": [{
  "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "$pod_range"}]],
           "routes": [{"dst": "$any_address/0"}], "dataDir": "$state/cni-addresses"}}]}
END
}

token() { head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'; }

# write_kubeconfig FILE SERVER TOKEN
write_kubeconfig() {
    (umask 077 && cat >"$1") <<END
apiVersion: v1
kind: Config
current-context: podgate-test
contexts: [{name: podgate-test, context: {cluster: podgate-test, user: podgate-test}}]
clusters: [{name: podgate-test, cluster: {server: "$2", certificate-authority: $state/pki/ca.crt}}]
users: [{name: podgate-test, user: {token: "$3"}}]
END
}

write_credentials() {
    local pki=$state/pki admin kubelet manager scheduler
    mkdir -p "$pki"
    # Use a separate CA, because some TLS libraries reject a server certificate that is its own CA.
    {
        openssl ecparam -name prime256v1 -genkey -noout -out "$pki/ca.key" &&
            openssl req -x509 -new -key "$pki/ca.key" -subj /CN=podgate-test-ca -days 3650 -out "$pki/ca.crt" \
                -addext 'keyUsage=critical,keyCertSign' &&
            openssl ecparam -name prime256v1 -genkey -noout -out "$pki/apiserver.key" &&
            openssl req -new -key "$pki/apiserver.key" -subj /CN=kube-apiserver -out "$pki/apiserver.csr" &&
            openssl x509 -req -in "$pki/apiserver.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -days 3650 \
                -out "$pki/apiserver.crt" -extfile <(
                    echo "subjectAltName=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:$service_ip,IP:$node_ip"
                    echo extendedKeyUsage=serverAuth
                ) &&
            openssl genrsa -out "$pki/service-account.key" 2048 &&
            openssl rsa -in "$pki/service-account.key" -pubout -out "$pki/service-account.pub"
    } >"$logs/openssl.log" 2>&1 || die "openssl failed; its log: $logs/openssl.log"

    admin=$(token) kubelet=$(token) manager=$(token) scheduler=$(token)
    (umask 077 && cat >"$state/tokens.csv") <<END
$admin,admin,admin,system:masters
$kubelet,system:node:$node,kubelet,system:nodes
$manager,system:kube-controller-manager,kcm,
$scheduler,system:kube-scheduler,scheduler,
END
    write_kubeconfig "$kubeconfig" "https://127.0.0.1:$port" "$admin"
    write_kubeconfig "$kubeconfig_inside" "https://$service_host" "$admin"
    write_kubeconfig "$state/kubelet.kubeconfig" "https://$service_host" "$kubelet"
    write_kubeconfig "$state/manager.kubeconfig" "https://$service_host" "$manager"
    write_kubeconfig "$state/scheduler.kubeconfig" "https://$service_host" "$scheduler"
}

write_settings() {
    local cgroup_v1=
    # Since 1.35, the kubelet does not start on cgroup v1 by default.
    [[ $(cgroup_version) != v1 ]] || cgroup_v1="failCgroupV1: false"
    # containerd 2 converts this format to its own when it starts.
    cat >"$state/containerd.toml" <<END
version = 2
root = "$state/containerd"
state = "$run/containerd"
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
  address = "$containerd_socket"
# Since containerd 2, NRI is on by default, and uses files outside our directories.
[plugins."io.containerd.nri.v1.nri"]
  disable = true
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$pause_image"
  # Inside a container, lowering oom_score_adj is not permitted.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$state/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      BinaryName = "$runtime_program"
END
    # All other settings are the kubelet's defaults. Nothing here changes how the kubelet treats a pod.
    cat >"$state/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: "$node_ip"
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://$containerd_socket
cgroupDriver: cgroupfs
cgroupRoot: /$name
failSwapOn: false
$cgroup_v1
enforceNodeAllocatable: []
oomScoreAdj: 0
evictionHard: {memory.available: 50Mi, nodefs.available: "1%", nodefs.inodesFree: "1%", imagefs.available: "1%"}
# Never delete unused images, because without a registry they cannot be pulled again.
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
# The default is 110. The node has addresses for 253 pods.
maxPods: 220
# There is no DNS. Nothing listens at this address, so a lookup fails at once instead of timing out.
clusterDNS: ["$node_ip"]
clusterDomain: cluster.local
podLogsDir: $state/pod-logs
volumePluginDir: $state/volume-plugins
END
    cat >"$state/audit.yaml" <<END
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, resources: [{group: "", resources: [pods, "pods/*"]}]}
- {level: None}
END
}

start() { # COMPONENT: starts it with the feature gates of $feature_gates, and returns when it is usable
    local component=$1 gates=()
    [[ -z ${feature_gates:-} ]] || gates=("--feature-gates=$feature_gates")
    case $component in
    etcd)
        launch_inside etcd etcd --name test --data-dir "$state/etcd" --unsafe-no-fsync --log-level warn \
            --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
            --listen-peer-urls http://127.0.0.1:2380
        ;;
    containerd)
        # containerd finds its shim by PATH.
        PATH=$containerd_bin:$PATH launch_inside containerd containerd --config "$state/containerd.toml" \
            --log-level info
        until_true 300 "containerd answers" containerd ctr_ours version
        ;;
    kube-apiserver)
        # The API server listens on the address and port of its own service, so pods reach it without kube-proxy.
        # Without kube-proxy, the API server must call webhooks by the addresses of their pods, which aggregator routing
        # does.
        launch_inside kube-apiserver "$k8s_bin/kube-apiserver" \
            --etcd-servers=http://127.0.0.1:2379 \
            --bind-address="$any_address" --secure-port=443 --advertise-address="$service_ip" \
            --service-cluster-ip-range="$service_range" --endpoint-reconciler-type=none \
            --tls-cert-file="$state/pki/apiserver.crt" --tls-private-key-file="$state/pki/apiserver.key" \
            --cert-dir="$state/pki" --token-auth-file="$state/tokens.csv" \
            --service-account-issuer=https://kubernetes.default.svc \
            --service-account-key-file="$state/pki/service-account.pub" \
            --service-account-signing-key-file="$state/pki/service-account.key" \
            --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
            --allow-privileged --kubelet-preferred-address-types=InternalIP --enable-aggregator-routing \
            --audit-policy-file="$state/audit.yaml" --audit-log-path="$audit_log" "${gates[@]}"
        until_true 300 "the API server is ready" kube-apiserver api_ready
        ;;
    relay)
        launch relay "$tools_bin/relay" "127.0.0.1:$port" "$netns" "$service_host:443"
        ;;
    kube-controller-manager)
        launch_inside kube-controller-manager "$k8s_bin/kube-controller-manager" \
            --kubeconfig="$state/manager.kubeconfig" --use-service-account-credentials --leader-elect=false \
            --service-account-private-key-file="$state/pki/service-account.key" --root-ca-file="$state/pki/ca.crt" \
            --cert-dir="$state/pki/manager"
        ;;
    kube-scheduler)
        launch_inside kube-scheduler "$k8s_bin/kube-scheduler" --kubeconfig="$state/scheduler.kubeconfig" \
            --leader-elect=false --cert-dir="$state/pki/scheduler"
        ;;
    kubelet)
        # Keep dead containers until their pod is deleted, for container-times.
        launch_inside kubelet "$kubelet_bin/kubelet" --config="$state/kubelet.yaml" \
            --kubeconfig="$state/kubelet.kubeconfig" --root-dir="$state/kubelet" --cert-dir="$state/pki/kubelet" \
            --hostname-override="$node" --node-ip="$node_ip" --maximum-dead-containers-per-container=50 "${gates[@]}"
        ;;
    esac
}

# A kubelet that does not find containerd exits. Restart it, as a service manager would.
kubelet_up() {
    local try i
    for ((try = 0; try < 5; try++)); do
        for ((i = 0; i < 500; i++)); do
            if inside bash -c 'exec 3<>/dev/tcp/127.0.0.1/10248' 2>/dev/null; then return; fi
            pid_of kubelet >/dev/null || break
            sleep 0.02
        done
        if ! pid_of kubelet >/dev/null; then
            sleep 0.2
            start kubelet
        fi
    done
    tail -n 8 "$logs/kubelet.log" >&2
    die "the kubelet does not start; its log: $logs/kubelet.log"
}

api_ready() { inside "$k8s_bin/kubectl" --kubeconfig "$kubeconfig_inside" get --raw /readyz; }

kubectl_ours() { "$k8s_bin/kubectl" --kubeconfig "$kubeconfig" "$@"; }

version_of() { # .../v1.37.2-0123456789ab/bin
    local name=${1%/bin}
    name=${name##*/v}
    echo "${name%-*}"
}

# Prints what runs, such as `Kubernetes 1.37.2 (kubelet 1.34.4), containerd 2.4.2, runc 1.5.2, IPv4, cgroup v1`. The
# kubelet is left out if it has the version of the API server.
versions() {
    local k8s kubelet containerd runtime
    k8s=$(version_of "$k8s_bin") kubelet=$(version_of "$kubelet_bin")
    [[ $k8s == "$kubelet" ]] || k8s+=" (kubelet $kubelet)"
    containerd=$("$containerd_bin/containerd" --version | cut -d ' ' -f 3)
    runtime=$("$runtime_program" --version | sed -n '1s/.*version v\{0,1\}//p')
    echo "Kubernetes $k8s, containerd ${containerd#v}, ${runtime_program##*/} $runtime, $addresses, cgroup $(cgroup_version)"
}

# ctr 2 would warn of cgroup v1 in each call.
ctr_ours() {
    CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=true "$containerd_bin/ctr" -a "$containerd_socket" -n k8s.io "$@"
}

make_images() {
    "$here/oci-image" --name "$pause_image" --file "$tools_bin/pause:/pause" --entrypoint /pause --user 65535:65535 \
        --output "$state/pause.tar"
    load_image "$state/pause.tar"
    "$here/images" busybox --file "$(command -v busybox)" --output "$state/busybox.tar"
    load_image "$state/busybox.tar"
}

load_image() {
    local options=()
    [[ -f $1 ]] || die "no such file: $1"
    # Without this option, ctr 2 prints names with blanks instead of dashes. ctr 1.6 does not have the option.
    [[ $containerd_bin == /usr/bin ]] || options=(--local)
    # containerd records an image's id only when it first sees the image's name, and an image volume needs the id. So
    # remove the names first.
    tar -xOf "$1" index.json | jq -r '.manifests[].annotations["io.containerd.image.name"] // empty' |
        xargs -r -n 1 env CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=true "$containerd_bin/ctr" -a "$containerd_socket" \
            -n k8s.io images rm >>"$logs/import.log" 2>&1 || true
    ctr_ours images import "${options[@]}" "$1" >"$logs/import.log" 2>&1 ||
        die "containerd cannot import $1: $(tail -n 1 "$logs/import.log")"
    # One line for each image: "unpacking NAME (sha256:...)...done"
    sed -n 's/^unpacking \([^ ]*\) .*/cluster: loaded \1/p' "$logs/import.log" >&2
}

all_running() {
    local component
    [[ -s $run/version ]] || return 1
    for component in "${components[@]}"; do pid_of "$component" >/dev/null || return 1; done
}

up() { # VERSION CONTAINERD RUNTIME KUBELET
    local version=$1 begin record what
    if foreign; then
        up_foreign
        return
    fi
    need_root
    [[ $(uname -s) == Linux ]] || die "works on Linux only; set KUBECONFIG to use a cluster of yours"
    if [[ $3 == crun && $(cgroup_version) == v1 && -n $(cat /sys/fs/cgroup/*/cgroup.controllers 2>/dev/null) ]]; then
        die "crun starts no containers here, because cgroup v1 and v2 both have controllers: see 'tests/cluster/vm help'"
    fi
    choose "$@"
    install_packages
    build "$@"
    record="$version $k8s_bin $tools_bin $containerd_bin $runtime_program $kubelet_bin $addresses"
    what=$(versions)
    lock
    if all_running; then
        if [[ $(<"$run/version") == "$record" ]] && kubectl_ours get --raw /readyz >/dev/null 2>&1; then
            say "$what is already running; KUBECONFIG=$kubeconfig"
            return
        fi
        say "replacing the running cluster with $what"
    elif [[ -e $run || -e $state ]]; then
        say "removing the remains of an earlier run"
    fi
    begin=${EPOCHREALTIME/./}
    clean
    mkdir -p "$state" "$run" "$logs"
    chmod 755 "$state" "$run"
    # Write this file before anything starts, so that the next run also finds an interrupted start.
    echo "$record" >"$run/version"
    make_cgroups
    write_network
    write_credentials
    write_settings
    start etcd
    start containerd
    make_images &
    local images=$!
    start kube-apiserver
    local component
    for component in relay kube-controller-manager kube-scheduler kubelet; do start "$component"; done
    wait $images || die "creating the images failed (above)"
    kubelet_up
    until_true 300 "the relay reaches the API server (if port $port is in use, set PODGATE_CLUSTER_PORT)" relay kubectl_ours get --raw /readyz
    until_true 300 "the node is registered" kubelet kubectl_ours get node "$node"
    # Wait in short steps to detect a component that exits.
    until_true 300 "the node is Ready" kubelet kubectl_ours wait --for=condition=Ready "node/$node" --timeout=5s
    until_true 300 "the default service account exists" kube-controller-manager kubectl_ours get -n default serviceaccount default
    say "$what is running after $(((${EPOCHREALTIME/./} - begin) / 1000)) ms; KUBECONFIG=$kubeconfig"
}

up_foreign() {
    local kubectl version
    kubectl=$(foreign_kubectl)
    version=$("$kubectl" version -o json 2>/dev/null | sed -n '/serverVersion/,$s/.*"gitVersion": "\(.*\)".*/\1/p') || true
    [[ -n $version ]] ||
        die "the cluster of KUBECONFIG=$KUBECONFIG does not answer: '$kubectl version' says why; unset KUBECONFIG to start one here"
    say "using the cluster of KUBECONFIG=$KUBECONFIG (Kubernetes $version); nothing was started"
    foreign_limits
}

foreign_limits() { say "faults work only on a cluster started here"; }

# load_foreign ARCHIVE: loads an image archive into the user's cluster with the tool that created the cluster.
load_foreign() {
    local kubectl context
    kubectl=$(foreign_kubectl)
    context=$("$kubectl" config current-context) || die "KUBECONFIG=$KUBECONFIG has no current context"
    case $context in
    kind-*) kind load image-archive "$1" --name "${context#kind-}" ;;
    k3d-*) k3d image import "$1" --cluster "${context#k3d-}" ;;
    minikube) minikube -p minikube image load "$1" ;;
    *) die "the context $context of KUBECONFIG=$KUBECONFIG is not of kind, k3d or minikube: load $1 into its nodes yourself, or push its images to a registry of the cluster" ;;
    esac >&2 || die "$1 was not loaded into the cluster of the context $context"
}

foreign_kubectl() {
    local kubectl
    if command -v kubectl; then return; fi
    for kubectl in "$cache"/k8s/*/bin/kubectl; do
        if [[ -x $kubectl ]]; then
            echo "$kubectl"
            return
        fi
    done
    die "KUBECONFIG is set, but kubectl was not found: install it, or run 'cluster build'"
}

down() {
    if foreign; then
        say "nothing to stop: KUBECONFIG=$KUBECONFIG names a cluster that was not started here"
        return
    fi
    need_root
    lock
    if [[ ! -e $run && ! -e $state ]]; then
        say "no cluster is running"
        return
    fi
    clean
    say "stopped and removed"
}
