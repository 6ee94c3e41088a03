# shellcheck shell=bash
# shellcheck disable=SC2154 # other sourced files set the variables
# Installs Debian packages, and builds Kubernetes, containerd and runc from their Go modules. Sourced by cluster.

packages=(etcd-server containerd runc containernetworking-plugins iproute2 busybox-static openssl jq procps)

# choose_version VERSION: sets the paths of the programs of a version in k8s/, even if that version is not built yet.
choose_version() {
    local module=$here/k8s/$1
    [[ -f $module/go.mod ]] || usage_error "unsupported Kubernetes version $1; must be one of: $(cd "$here/k8s" && echo */ | tr -d /)"
    k8s_full=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' "$module/go.mod")
    k8s_bin=$cache/k8s/$k8s_full-$(cat "$module/go.sum" "$here/k8s/main.go" | sha256sum | cut -c1-12)/bin
    tools_bin=$cache/tools/$(cat "$here"/tools/go.mod "$here"/tools/*/*.go | sha256sum | cut -c1-12)/bin
}

# choose_containerd VERSION: sets the directory of containerd, its shim and ctr. This is the directory of Debian's
# package, or of a version in containerd/, even if that version is not built yet.
choose_containerd() {
    local module=$here/containerd/$1
    if [[ $1 == debian ]]; then
        containerd_bin=/usr/bin
        return
    fi
    [[ -f $module/go.mod ]] || usage_error "unsupported containerd version $1; must be debian or one of: $(cd "$here/containerd" && echo */ | tr -d /)"
    containerd_full=$(awk '$1 ~ "^github.com/containerd/containerd(/v2)?$" { print $1 "@" $2 }' "$module/go.mod")
    containerd_package=${containerd_full%@*} containerd_full=${containerd_full#*@}
    containerd_bin=$cache/containerd/$containerd_full-$(cat "$module"/go.* | sha256sum | cut -c1-12)/bin
}

# choose_runtime NAME: sets the path of the OCI runtime. This is the program of Debian's package, or of a version in
# runc/, even if that version is not built yet.
choose_runtime() {
    local module=$here/runc/${1#runc-}
    runtime_program=/usr/sbin/$1
    case $1 in
    runc) ;;
    crun) packages+=(crun) runtime_program=/usr/bin/crun ;;
    *)
        [[ -f $module/go.mod ]] || usage_error "unsupported runtime $1; must be runc, crun or one of: $(cd "$here/runc" && printf 'runc-%s ' */ | tr -d /)"
        # The default seccomp profile needs libseccomp.
        packages+=(libseccomp-dev pkg-config gcc)
        runc_full=$(awk '$1 == "github.com/opencontainers/runc" { print $2 }' "$module/go.mod")
        runtime_program=$cache/runc/$runc_full-$(cat "$module"/go.* | sha256sum | cut -c1-12)/bin/runc
        ;;
    esac
}

install_packages() {
    local package missing=()
    for package in "${packages[@]}"; do
        [[ $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) == "install ok installed" ]] || missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    command -v apt-get >/dev/null ||
        die "apt-get not found, needed to install ${missing[*]}: use Debian or a derivative, or set KUBECONFIG to use your own cluster"
    say "installing Debian packages (about 150 MB, 30 s): ${missing[*]}"
    # Keep apt from starting services: this cluster runs its own etcd and containerd.
    local policy=/usr/sbin/policy-rc.d ours=
    if [[ ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
        ours=yes
    fi
    local log status=0
    log=$(mktemp)
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } \
        >"$log" 2>&1 </dev/null || status=$?
    [[ -z $ours ]] || rm -f $policy
    if ((status)); then
        tail -n 20 "$log" >&2
        rm -f "$log"
        die "installing packages failed (above); install them by hand: ${missing[*]}"
    fi
    rm -f "$log"
}

need_go() { # MODULE: fails if Go is missing
    command -v go >/dev/null ||
        die "Go not found, needed to build the cluster: install it from https://go.dev/dl/ ($(sed -n 's/^go /at least /p' "$here/$1/go.mod")), or set KUBECONFIG to use your own cluster (for example, from kind or k3d)"
}

# A build runs in a temporary directory, which is removed if the build does not finish.
build_dir=
# shellcheck disable=SC2329 # called by the trap
drop_build_dir() { [[ -z $build_dir ]] || rm -rf "$build_dir"; }
trap drop_build_dir EXIT

new_build_dir() { # FINAL: creates a temporary directory beside it
    mkdir -p "${1%/*}"
    find "${1%/*}" -maxdepth 1 -name '.building.*' -mmin +120 -exec rm -rf {} + # left by killed builds
    build_dir=$(mktemp -d "${1%/*}/.building.XXXXXX")
    mkdir "$build_dir/src" "$build_dir/bin"
    chmod 755 "$build_dir"
}
finish_build_dir() { # FINAL
    rm -rf "$build_dir/src" "$build_dir/log"
    # Another run may have finished the same build in the meantime. If so, use that build.
    mv -T "$build_dir" "$1" 2>/dev/null || [[ -d $1/bin ]] || die "cannot move $build_dir to $1"
}

# choose VERSION CONTAINERD RUNTIME KUBELET: sets the paths of all programs, even if they are not built yet.
choose() {
    choose_version "$4"
    kubelet_bin=$k8s_bin
    choose_version "$1"
    choose_containerd "$2"
    choose_runtime "$3"
}

build() { # VERSION CONTAINERD RUNTIME KUBELET
    choose_version "$4"
    build_k8s "$4"
    choose "$@"
    build_tools "$1"
    build_k8s "$1"
    build_containerd "$2"
    build_runc "${3#runc-}"
}

build_tools() {
    [[ ! -d $tools_bin ]] || return 0
    need_go "k8s/$1"
    new_build_dir "${tools_bin%/bin}"
    (cd "$here/tools" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$build_dir/bin/" ./...) ||
        die "building tests/cluster/tools failed (above)"
    finish_build_dir "${tools_bin%/bin}"
}

build_k8s() {
    local package link flags=
    [[ ! -d $k8s_bin ]] || return 0
    need_go "k8s/$1"
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        flags+=" -X $package.gitVersion=$k8s_full -X $package.gitMajor=1 -X $package.gitMinor=${1#1.}"
    done
    new_build_dir "${k8s_bin%/bin}"
    cp "$here/k8s/main.go" "$here/k8s/$1"/go.* "$build_dir/src"
    say "building Kubernetes $k8s_full into ${k8s_bin%/bin}: once, 9 minutes on 2 cores, 2 GB of Go build cache"
    compile "Kubernetes $k8s_full" 2700 "$flags" -o ../bin/k8s .
    for link in kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do
        ln -s k8s "$build_dir/bin/$link"
    done
    finish_build_dir "${k8s_bin%/bin}"
}

build_containerd() {
    [[ ! -d $containerd_bin ]] || return 0
    need_go "containerd/$1"
    new_build_dir "${containerd_bin%/bin}"
    cp "$here/containerd/$1"/go.* "$build_dir/src"
    say "building containerd $containerd_full into ${containerd_bin%/bin}: once, 2 minutes on 2 cores"
    # go.mod lists containerd, its shim and ctr as tools. The build leaves out snapshotters that the cluster does not
    # use.
    compile "containerd $containerd_full" 1000 "-X $containerd_package/version.Version=$containerd_full" \
        -tags no_btrfs,no_devmapper,no_zfs,no_aufs -o ../bin/ tool
    finish_build_dir "${containerd_bin%/bin}"
}

build_runc() {
    [[ ! -x $runtime_program ]] && [[ $runtime_program == "$cache"/* ]] || return 0
    need_go "runc/$1"
    install_packages
    new_build_dir "${runtime_program%/bin/runc}"
    cp "$here/runc/$1"/go.* "$build_dir/src"
    say "building runc $runc_full into ${runtime_program%/bin/runc}: once, 1 minute on 2 cores"
    # runc enters namespaces in C code, so the build needs cgo.
    cgo=1 compile "runc $runc_full" 300 "-X main.version=${runc_full#v}" -tags seccomp -o ../bin/ tool
    finish_build_dir "${runtime_program%/bin/runc}"
}

# compile WHAT PACKAGES FLAGS ARGUMENTS...: runs `go build ARGUMENTS` in src of the build directory, with the linker's
# FLAGS. Shows how many of about PACKAGES packages it has compiled.
compile() {
    local what=$1 packages=$2 flags=$3 start=$SECONDS status=0 pid count next=15
    shift 3
    # -v prints each compiled package, which serves as progress.
    (cd "$build_dir/src" && CGO_ENABLED=${cgo:-0} exec go build -trimpath -buildvcs=false -mod=readonly -v \
        -ldflags "-s -w $flags" "$@") >"$build_dir/log" 2>&1 &
    pid=$!
    # shellcheck disable=SC2064 # expand the pid now
    trap "kill $pid 2>/dev/null || true; wait $pid 2>/dev/null || true; drop_build_dir" EXIT
    trap 'exit 130' INT TERM HUP
    while kill -0 $pid 2>/dev/null; do
        sleep 0.5
        if ((SECONDS - start >= next)); then
            count=$(grep -cv '^go: ' "$build_dir/log" || true)
            say "$((SECONDS - start)) s: $count of about $packages packages compiled (cached ones are not counted)"
            next=$((next + 15))
        fi
    done
    wait $pid || status=$?
    trap drop_build_dir EXIT
    trap - INT TERM HUP
    if ((status)); then
        tail -n 20 "$build_dir/log" >&2
        die "building $what failed (above); the modules come from GOPROXY=$(go env GOPROXY)"
    fi
    say "built $what in $((SECONDS - start)) s"
}
