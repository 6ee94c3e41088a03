# `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# Kubernetes version of the test cluster, scenarios to run, seed of the soak test, fuzz targets, seconds for each fuzz
# target.
K8S ?= 1.36
SCENARIO ?=
SEED ?=
# Further options of `cluster up`, such as --containerd 2.
CLUSTER ?=
FUZZ ?= $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
TIME ?= 60
# Parts of `make scale`: admissions, sidecars, burst, each with an optional number of Pods.
PARTS ?=
# An attack on the webhook aims at time and memory, so the fuzzer limits both. The API server waits 5 s for an answer.
# The address sanitizer is off, because it would multiply time and memory.
fuzz_build_admission := --sanitizer none
fuzz_limits_admission := -max_len=1048576 -timeout=5 -rss_limit_mb=128

machine := $(shell uname -m)
# Names of the images, as in the built manifests (src/order/release.rs).
registry := $(or $(PODGATE_IMAGE_REGISTRY),ghcr.io/podgate)
version = $(shell sed -n '0,/^version = /s/^version = "\(.*\)"/\1/p' Cargo.toml)
cargo := cargo

.PHONY: help build agent controller webhook kubectl krew image release release-verify release-rehearsal dockerfile try picture demo test e2e soak guarantees compare matrix upgrade bench scale originals suggestions fuzz lint site cluster-up cluster-down \
	cluster-status setup clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ build

build: ## Build all four programs, static, for this machine's processor; print their paths
	@tools/build

agent: ## Build podgate, the agent
	@tools/build podgate

controller: ## Build podgate-controller, the sidecar
	@tools/build podgate-controller

webhook: ## Build podgate-webhook, the admission webhook
	@tools/build podgate-webhook

kubectl: ## Build kubectl-podgate, the user's tool
	@tools/build kubectl-podgate

krew: ## Write krew's manifest and the archive of kubectl-podgate for this machine's processor to dist/krew
	krew/package --out dist/krew linux-$(subst x86_64,amd64,$(subst aarch64,arm64,$(machine)))="$$(tools/build kubectl-podgate podgate podgate-controller | paste -sd,)"

image: ## Build the image archives without an image builder, and print their paths (the Dockerfile needs an image builder)
	@rm -rf dist/images
	@programs=$$(tools/build podgate podgate-controller podgate-webhook) && install -Dt dist/images/bin $$programs
	@tests/cluster/images podgate --bin-dir dist/images/bin --name $(registry)/podgate:$(version) --output dist/images/podgate.tar
	@tests/cluster/images webhook --bin-dir dist/images/bin --name $(registry)/podgate-webhook:$(version) --output dist/images/podgate-webhook.tar
	@rm -r dist/images/bin
	@ls dist/images/*.tar

release: ## Build all files of a release into dist/release, from the last commit: VERSION=0.1.0 (20 minutes)
	tools/release "$(VERSION)"

release-verify: release ## Build the release a second time elsewhere, and compare all bytes: VERSION=0.1.0 (40 minutes)
	tools/release --verify "$(VERSION)"

release-rehearsal: ## Sign dist/release with a new key, push it to a registry on this machine, and verify it as docs/install.md does
	tools/rehearse-release dist/release

dockerfile: ## Build both images with the Dockerfile and buildah, and check their content; needs root on Debian (20 minutes)
	tests/cluster/buildah-check --keep
	tests/cluster/buildah-check --target webhook

##@ demo and tests

try: ## Preview a Pod's start on this machine: build what `kubectl podgate try` needs, and run its example
	@tools/try

picture: K8S = 1.37
picture: CLUSTER = --containerd 2 --runtime runc-1.5
picture: ## Draw README's pictures from two starts on a real node, and docs/images/killed.svg (docs/try.md) from a local run; print README's times
	@.ci/setup --for demo --k8s $(K8S)
	tests/kubelet/prepare --k8s $(K8S) $(CLUSTER) --no-clock --no-debian
	tools/picture --pair docs/start.yaml docs/images
	out=$$(mktemp -d) && trap 'rm -r "$$out"' EXIT && \
		tools/try -o json --ready db=2s --ready api=1s --break db@kill:1500ms | tools/picture >"$$out/killed.svg" && cp "$$out"/*.svg docs/images/

demo: ## Start postgres, an application and nginx in one Pod on a real node, without and with podgate (installs what it needs)
	@demo/demo

# Run four tests per processor at the same time, because many tests wait for a time limit of podgate. A test program that
# hangs ends after 20 minutes. The whole run takes less time.
test: ## Run all tests that need neither a cluster nor root; list what this machine lacks for some of them, and skip these
	may_skip=$${PODGATE_MAY_SKIP-$$(tests/needs)} && \
		PODGATE_MAY_SKIP=$$may_skip RUST_TEST_THREADS=$$((4 * $$(nproc))) $(cargo) test --locked \
		--config 'target."cfg(all())".runner = ["timeout", "--foreground", "--verbose", "20m"]' && \
		if [[ -n $$may_skip ]]; then echo "test: some tests did not run, because this machine lacks: $$may_skip (above: how to get it)"; fi

e2e: ## Run the tests on a real kubelet (installs what it needs): SCENARIO=name for some of them, K8S=1.34 for the older Kubernetes
	@.ci/setup --for e2e --k8s $(K8S)
	tests/kubelet/prepare --k8s $(K8S) $(CLUSTER)
	tests/kubelet/run $(SCENARIO)

soak: TIME = 40m
soak: ## Run random Pods under random faults for TIME=40m, with the choices of SEED=1; writes violations to target/tmp/soak
	@.ci/setup --for e2e --k8s $(K8S)
	tests/kubelet/prepare --k8s $(K8S) $(CLUSTER) --no-debian
	PODGATE_SOAK_TIME=$(TIME) PODGATE_SOAK_SEED=$(SEED) PODGATE_TRIES=1 tests/kubelet/run soak::

guarantees: K8S = 1.34 1.36
guarantees: ## Test every fault in every mode on two Kubernetes versions, or on K8S=1.37, and write docs/guarantees.md (25 minutes)
	rm -rf "$$(tools/build --target-dir)/tmp/guarantees"
	for k8s in $(K8S); do \
		tests/kubelet/prepare --k8s $$k8s $(CLUSTER) --no-debian; \
		tests/kubelet/run guarantees::; \
	done
	PODGATE_REGENERATE=measured $(cargo) test --locked --test kubelet guarantees::table

compare: K8S = 1.37
compare: CLUSTER = --containerd 2 --runtime runc-1.5
compare: ## Test every fault on podgate and on other ways to order containers, write docs/guarantees.md, and print the table (50 minutes)
	@.ci/setup --for e2e --k8s $(K8S)
	rm -rf "$$(tools/build --target-dir)/tmp/guarantees"
	tests/kubelet/prepare --k8s $(K8S) $(CLUSTER) --no-debian
	tests/kubelet/peers/prepare
	tests/kubelet/run guarantees:: compared::
	PODGATE_REGENERATE=measured $(cargo) test --locked --test kubelet guarantees::table
	@sed -n '/begin compared/,/end compared/p' docs/guarantees.md

matrix: ## Test several versions of Kubernetes and of the runtime, write docs/compatibility.md, and test arm64 under QEMU (3 hours): PLACES=1.37/2/runc-1.5; 1.36/debian/runc/vm has cgroup v2
	tests/kubelet/matrix $(PLACES) -- $(SCENARIO)
	[[ -n "$(PLACES)" ]] || tests/arm64

upgrade: ## Test the upgrade from OLD, a tag or commit, to this tree, and back, on a real kubelet (10 minutes)
	@[[ -n "$(OLD)" ]] || { echo "make upgrade: set OLD to a tag or commit, such as OLD=v0.1.0" >&2 && exit 64; }
	tests/kubelet/prepare --k8s $(K8S) --no-clock --no-debian
	tests/kubelet/upgrade "$(OLD)"

bench: ## Run the benchmarks: size, memory, latency, added start time, waiting Pods, webhook (55 minutes)
	$(cargo) bench --locked --no-default-features --bench agent
	tests/kubelet/prepare --k8s $(K8S) --no-clock --no-debian
	$(cargo) bench --locked --bench pod-start
	$(cargo) bench --locked --bench release
	$(cargo) bench --locked --bench waiting-pods
	tools/build podgate-webhook
	$(cargo) bench --locked --bench webhook
	$(cargo) bench --locked --bench webhook -- --search 60
	$(cargo) bench --locked --bench webhook -- --flood 30

scale: ## Compare 10,000 admissions, 1,000 sidecars and 100 Pods at once with the ranges in bench/scale/ranges (40 minutes): PARTS="sidecars=100"
	tests/kubelet/prepare --k8s $(K8S) --no-clock --no-debian
	$(cargo) bench --locked --bench scale -- $(PARTS)

originals: ## Compare the Pods of tests/manifests/neighbors with the products' git repositories in PODGATE_ORIGINALS=DIRECTORY
	$(cargo) test --locked --test manifests originals -- --ignored

suggestions: ## Compare tests/manifests/check/suggest.tsv and findings.tsv with the manifests in PODGATE_SUGGESTIONS=DIRECTORY
	$(cargo) test --locked --test manifests recorded_ -- --ignored

fuzz: $(FUZZ:%=fuzz-%) ## Fuzz each of fuzz/fuzz_targets (FUZZ=annotations: only this one) for TIME=60 seconds; needs nightly Rust and cargo-fuzz

fuzz-%:
	cd fuzz && cargo +nightly fuzz run $(fuzz_build_$*) $* -- -max_total_time=$(TIME) $(fuzz_limits_$*)

##@ checks

lint: ## Check format, lints, shell scripts, dependencies and spelling
	@.ci/lint

site: ## Build the site from the pages into target/site, and check its links (the first time builds mdBook, 5 minutes)
	@tools/site

##@ the test cluster

cluster-up: ## Start the test cluster (K8S=1.34 for the older one)
	tests/cluster/cluster up --k8s $(K8S)

cluster-down: ## Stop the test cluster, and remove everything that it created
	tests/cluster/cluster down

cluster-status: ## Show what runs in the test cluster, and the paths of logs and settings
	tests/cluster/cluster status

setup: ## Install only what the build and the tests need
	@.ci/setup

clean: ## Remove the build output (not the cluster, nor Kubernetes in ~/.cache/podgate)
	$(cargo) clean
	rm -rf fuzz/target
