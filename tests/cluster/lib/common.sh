# shellcheck shell=bash
# Paths, messages, and starting and stopping of processes. Sourced by cluster.
# The other files of lib/ use these variables.
# shellcheck disable=SC2034

cache=${PODGATE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/podgate}

# Each machine has one cluster, always in the same directories, so that a run in any clone finds the files of earlier
# runs.
name=podgate-test-cluster
# etcd, containerd and the kubelet need a real file system.
state=${PODGATE_CLUSTER_STATE:-/var/lib}/$name
run=/run/$name       # must not survive a reboot: pid files and sockets
logs=$state/log
netns=/run/netns/$name

node=podgate-node
port=${PODGATE_CLUSTER_PORT:-16443}

kubeconfig=$state/kubeconfig               # from this machine, through the relay
kubeconfig_inside=$state/kubeconfig-inside # from the cluster's network
audit_log=$state/audit.log
containerd_socket=$run/containerd.sock
pause_image=docker.io/podgate/pause:test

# choose_addresses IPv4|IPv6: sets the addresses in the cluster's network.
choose_addresses() {
    addresses=$1
    if [[ $addresses == IPv6 ]]; then
        node_ip=fd00:95::1 service_range=fd00:96::/112 service_ip=fd00:96::1 pod_range=fd00:97::/64
        service_host="[$service_ip]" any_address=::
    else
        node_ip=10.95.0.1 service_range=10.96.0.0/16 service_ip=10.96.0.1 pod_range=10.97.0.0/24
        service_host=$service_ip any_address=0.0.0.0
    fi
}

# In start order.
components=(etcd containerd kube-apiserver relay kube-controller-manager kube-scheduler kubelet)

say() { printf '%s\n' "cluster: $*" >&2; }
die() {
    say "$*"
    exit 1
}
usage_error() {
    say "$*; see 'cluster help'"
    exit 64
}

need_root() {
    [[ $(id -u) == 0 ]] ||
        die "needs root (containers, network namespace, mounts): run it with sudo, or set KUBECONFIG to use your own cluster"
}

# Succeeds if KUBECONFIG names the user's own cluster.
foreign() {
    [[ -n ${KUBECONFIG:-} && $KUBECONFIG != "$kubeconfig" && $KUBECONFIG != "$kubeconfig_inside" ]]
}

# for_ours WHAT: fails unless `up` started the cluster, because WHAT works only there.
for_ours() {
    if foreign; then
        die "$1 works only on a cluster that 'cluster up' started, but KUBECONFIG=$KUBECONFIG names another: unset it"
    fi
    need_root
    [[ -e $run/version ]] || die "no cluster is running: run 'cluster up' first"
}

# Allows one change at a time; the lock ends with this process.
lock() {
    exec 9>"/run/$name.lock"
    flock -n 9 || {
        say "another run is changing the cluster: waiting"
        flock 9
    }
}

# start_time PID: prints the start time of a process, in clock ticks since boot. Fails if the process does not exist, or
# is a zombie without other threads. A zombie with other threads counts as running, because the ports stay in use until
# all threads have ended. Pid and start time together identify a process, even if the pid is reused.
start_time() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # The name in parentheses may contain blanks: read after the last parenthesis.
    read -ra stat <<<"${stat##*) }"
    [[ ${stat[0]} != [ZX] || ${stat[17]} -gt 1 ]] || return 1
    echo "${stat[19]}"
}

# pid_of COMPONENT: prints the component's pid, if the process that we started still runs.
pid_of() {
    local pid time
    read -r pid time 2>/dev/null <"$run/$1.pid" || return 1
    [[ $(start_time "$pid") == "$time" ]] || return 1
    echo "$pid"
}

# launch COMPONENT COMMAND...: starts the command in the background, in our control group. The command inherits none of
# our descriptors. Otherwise, a caller that reads our output to the end would wait for the command.
launch() {
    local component=$1 pid fd
    shift
    (
        for fd in /proc/self/fd/*; do
            fd=${fd##*/}
            ((fd < 3 || fd == 255)) || eval "exec $fd>&-"
        done
        echo "$BASHPID" >"$daemons_cgroup/cgroup.procs"
        cd "$state" || exit
        exec setsid "$@" </dev/null >>"$logs/$component.log" 2>&1
    ) &
    pid=$!
    disown
    echo "$pid $(start_time $pid)" >"$run/$component.pid"
}

# inside COMMAND...: runs the command in the cluster's network. (`ip netns exec` would hide the cgroup mounts.)
inside() { nsenter "--net=$netns" "$@"; }
launch_inside() {
    local component=$1
    shift
    launch "$component" nsenter "--net=$netns" "$@"
}

# stop COMPONENT [SIGNAL] [SECONDS]: signals the component and waits until it exits. Sends SIGKILL after SECONDS.
stop() {
    local component=$1 signal=${2:-TERM} seconds=${3:-20} pid i
    pid=$(pid_of "$component") || {
        rm -f "$run/$component.pid"
        return 0
    }
    kill "-$signal" "$pid" 2>/dev/null || true
    for ((i = 0; i < seconds * 50; i++)); do
        pid_of "$component" >/dev/null || break
        sleep 0.02
    done
    if pid_of "$component" >/dev/null; then
        say "$component did not exit within $seconds s after SIG$signal: sending SIGKILL"
        kill -KILL "$pid" 2>/dev/null || true
        while pid_of "$component" >/dev/null; do sleep 0.02; done
    fi
    rm -f "$run/$component.pid"
}

# until_true SECONDS WHAT COMPONENT COMMAND...: repeats COMMAND until it succeeds. Fails after SECONDS,
# or if the component exits, and prints the end of its log.
until_true() {
    local seconds=$1 what=$2 component=$3 deadline
    shift 3
    deadline=$((SECONDS + seconds))
    until "$@" >/dev/null 2>&1; do
        if ! pid_of "$component" >/dev/null; then
            tail -n 8 "$logs/$component.log" >&2
            die "$component exited before $what; its log: $logs/$component.log"
        fi
        if ((SECONDS >= deadline)); then
            tail -n 8 "$logs/$component.log" >&2
            die "$what: timed out after $seconds s; the log of $component: $logs/$component.log"
        fi
        sleep 0.05
    done
}

# All our processes live below our own control group. The kernel therefore knows exactly which processes a killed run
# has left.
cgroup_roots() {
    awk '$3 ~ /^cgroup2?$/ && $2 ~ "^/sys/fs/cgroup" { print $2 }' /proc/mounts
}
cgroup_version() { if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then echo v2; else echo v1; fi; }
if [[ $(cgroup_version) == v2 ]]; then
    our_cgroup=/sys/fs/cgroup/$name
else
    our_cgroup=/sys/fs/cgroup/pids/$name
fi
daemons_cgroup=$our_cgroup/daemons

make_cgroups() {
    local root controller file
    for root in $(cgroup_roots); do
        if [[ -e $root/cgroup.controllers ]]; then
            tr ' ' '\n' <"$root/cgroup.controllers" | while read -r controller; do
                echo "+$controller" >"$root/cgroup.subtree_control" || true
            done
        fi
        mkdir -p "$root/$name"
        # In cgroup v1 a new cpuset is empty, and no process can enter it.
        for file in cpuset.cpus cpuset.mems; do
            if [[ -e $root/$name/$file && ! -e $root/cgroup.controllers && -z $(cat "$root/$name/$file") ]]; then
                cat "$root/$file" >"$root/$name/$file"
            fi
        done
    done 2>/dev/null
    mkdir -p "$daemons_cgroup"
}

our_processes() {
    local pid
    [[ -d $our_cgroup ]] || return 0
    find "$our_cgroup" -name cgroup.procs -exec cat {} + 2>/dev/null | while read -r pid; do
        if start_time "$pid" >/dev/null; then echo "$pid"; fi
    done
}

# clean: kills all our processes, and removes mounts, network and files. Works at any time, also
# after a killed run. No graceful shutdown, because the state is deleted anyway.
clean() {
    local i pids mount root link
    for ((i = 0; i < 500; i++)); do
        pids=$(our_processes)
        [[ -n $pids ]] || break
        # shellcheck disable=SC2086
        kill -KILL $pids 2>/dev/null || true
        sleep 0.02
    done
    [[ -z $(our_processes) ]] || die "processes survive SIGKILL: $(our_processes | tr '\n' ' ')"

    # Deepest mounts first.
    awk -v a="$state/" -v b="$run/" 'index($5, a) == 1 || index($5, b) == 1 { print $5 }' /proc/self/mountinfo |
        sort -r | while read -r mount; do
        umount "$mount" 2>/dev/null || umount -l "$mount" || true
    done
    if [[ -e $netns ]]; then ip netns del "$name" || die "cannot remove the network namespace $name"; fi
    for root in $(cgroup_roots); do
        [[ ! -d $root/$name ]] || find "$root/$name" -depth -type d -exec rmdir {} \; 2>/dev/null || true
    done
    # The kubelet creates links to its logs in this directory, whatever its settings.
    if [[ -d /var/log/containers ]]; then
        for link in /var/log/containers/*; do
            if [[ -L $link && $(readlink "$link") == "$state"/* ]]; then rm -f "$link"; fi
        done
    fi
    if awk -v a="$state/" 'index($5, a) == 1 { found = 1 } END { exit !found }' /proc/self/mountinfo; then
        die "something is still mounted below $state: 'grep $state /proc/self/mountinfo' shows it; unmount it and try again"
    fi
    rm -rf "${state:?}" "${run:?}"
}
