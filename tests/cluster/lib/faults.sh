# shellcheck shell=bash
# shellcheck disable=SC2154 # other sourced files set the variables
# Injects faults of real nodes, and reads containers from containerd. Sourced by cluster.

# task NAMESPACE POD CONTAINER: prints id and pid of the container's running process. CONTAINER "" is the sandbox. If a
# sandbox was replaced, prints the newest.
task() {
    local filter id pid status
    filter="labels.\"io.kubernetes.pod.namespace\"==\"$1\",labels.\"io.kubernetes.pod.name\"==\"$2\""
    if [[ -n $3 ]]; then
        filter+=",labels.\"io.cri-containerd.kind\"==\"container\",labels.\"io.kubernetes.container.name\"==\"$3\""
    else
        filter+=",labels.\"io.cri-containerd.kind\"==\"sandbox\""
    fi
    local ids
    ids=$(ctr_ours containers ls -q "$filter")
    # Several processes may run, for example while a sandbox is removed: take the newest process.
    ctr_ours tasks ls | while read -r id pid status; do
        if [[ $status == RUNNING && $'\n'$ids$'\n' == *$'\n'$id$'\n'* ]]; then
            echo "$(start_time "$pid") $id $pid"
        fi
    done | sort -n | tail -n 1 | cut -d ' ' -f 2-
}

need_task() {
    local found what="container $3 of pod $1/$2"
    [[ -n $3 ]] || what="sandbox of pod $1/$2"
    found=$(task "$@")
    [[ -n $found ]] || die "no running $what: see 'cluster container-times $1 $2'"
    echo "$found"
}

container_pid() {
    local found
    found=$(need_task "$@")
    echo "${found#* }"
}

kill_sandbox() {
    local pid
    pid=$(container_pid "$1" "$2" "")
    kill -KILL "$pid"
    say "killed the sandbox process $pid of $1/$2"
}

kill_container() {
    local pid signal=${4:-KILL}
    pid=$(container_pid "$1" "$2" "$3")
    kill "-${signal#SIG}" "$pid" || die "cannot send $signal to process $pid"
    say "sent SIG${signal#SIG} to process $pid of container $3 of $1/$2"
}

# signal_of COMMAND [--kill]: sets `signal`.
signal_of() {
    [[ $# == 1 || "${*:2}" == --kill ]] || usage_error "$1: unknown option: ${*:2}"
    signal=$([[ $# == 1 ]] && echo TERM || echo KILL)
}

restart() { # COMPONENT
    local component=$1
    lock
    stop "$component" "$signal"
    start "$component"
    [[ $component != kubelet ]] || kubelet_up
    say "restarted $component (SIG$signal); new pid: $(pid_of "$component")"
}

stop_component() { # COMPONENT NAME
    lock
    stop "$1" "$signal" 90
    say "stopped the $2"
}

start_component() { # COMPONENT NAME [FEATURE_GATES]
    local feature_gates=${3:-}
    lock
    if pid_of "$1" >/dev/null; then
        say "the $2 is already running"
        return
    fi
    start "$1"
    [[ $1 != kubelet ]] || kubelet_up
    if [[ $1 == kube-apiserver ]]; then
        # After an outage, these components may wait for up to 30 s before they retry. Restart them instead.
        local component
        for component in kube-controller-manager kube-scheduler; do
            stop "$component" KILL
            start "$component"
        done
    fi
    say "started the $2"
}

# Prints the time of the kernel's boot in nanoseconds since 1970, from the same clock as containerd's times.
boot_ns() {
    local up now=${EPOCHREALTIME/./}
    read -r up _ </proc/uptime
    echo $((now * 1000 - ${up/./} * 10000000))
}

container_times() {
    local namespace=$1 pod=$2 ids id dir boot
    ids=$(ctr_ours containers ls -q \
        "labels.\"io.kubernetes.pod.namespace\"==\"$namespace\",labels.\"io.kubernetes.pod.name\"==\"$pod\",labels.\"io.cri-containerd.kind\"==\"container\"")
    boot=$(boot_ns)
    for id in $ids; do
        dir=$state/containerd/io.containerd.grpc.v1.cri/containers/$id
        [[ -s $dir/status ]] || continue
        ctr_ours containers info "$id" 2>/dev/null | jq -c --slurpfile status "$dir/status" --argjson boot "$boot" \
            --arg id "$id" --arg ticks "$(start_time "$(jq '.Pid // .pid // 0' "$dir/status")" || true)" '
            ($status[0] | with_entries(.key |= ascii_downcase)) as $s |
            def moment: if . == 0 then null else . end;
            (.Extensions."io.cri-containerd.container.metadata".value | @base64d | fromjson | .Metadata) as $m |
            {container: .Labels."io.kubernetes.container.name",
             pod_uid: .Labels."io.kubernetes.pod.uid",
             sandbox: $m.SandboxID,
             attempt: ($m.Config.metadata.attempt // 0),
             id: $id, pid: $s.pid,
             created_ns: ($s.createdat | moment),
             process_ns: (if $ticks == "" then null else $boot + ($ticks | tonumber) * 10000000 end),
             started_ns: ($s.startedat | moment), finished_ns: ($s.finishedat | moment),
             exit_code: (if $s.finishedat == 0 then null else $s.exitcode end)}' || true
    done | jq -cs 'sort_by(.created_ns)[]'
}
