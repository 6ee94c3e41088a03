# One recipe for each thing that people do; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# Which Kubernetes the test cluster runs, which scenario, what to fuzz, for how many seconds.
K8S ?= 1.36
SCENARIO ?=
FUZZ ?= annotations
TIME ?= 60

machine := $(shell uname -m)
cargo := cargo

.PHONY: help build agent controller webhook kubectl man krew image demo test unit e2e guarantees bench fuzz lint docs-check cluster-up cluster-down \
	cluster-status setup clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ build

build: ## All four programs, static, for this machine's processor; prints where they are
	@tools/build

agent: ## podgate, the agent
	@tools/build podgate

controller: ## podgate-controller, the sidecar
	@tools/build podgate-controller

webhook: ## podgate-webhook, the admission webhook
	@tools/build podgate-webhook

kubectl: ## kubectl-podgate, the user's tool
	@tools/build kubectl-podgate

man: ## The manual's pages for kubectl podgate, in dist/man
	mkdir -p dist/man
	$(cargo) run --quiet --locked --no-default-features --features kubectl --bin kubectl-podgate -- man dist/man

krew: ## The archive of kubectl-podgate for this machine's processor and krew's manifest, in dist/krew
	krew/package --out dist/krew linux-$(subst x86_64,amd64,$(subst aarch64,arm64,$(machine)))="$$(tools/build kubectl-podgate)"

image: ## The images as archives, with no builder (the Dockerfile makes the same with one); says where they are
	tests/kubelet/prepare --no-cluster
	@ls "$$(tools/build --target-dir)"/e2e/podgate{,-webhook}.tar

##@ see it, test it

demo: ## The main job on a real node: one pod without podgate and with it, side by side (does all set-up)
	@demo/demo

test: ## All tests: those that need no cluster, then those on a real kubelet (does all set-up)
	@.ci/setup --for test --k8s $(K8S)
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory e2e

unit: ## What needs no cluster
	$(cargo) test --locked

e2e: ## On a real kubelet: SCENARIO=name for some of it, K8S=1.34 for the older Kubernetes
	tests/kubelet/prepare --k8s $(K8S)
	tests/kubelet/run $(SCENARIO)

guarantees: ## Every fault in every mode, on both versions of Kubernetes, and the tables in docs/guarantees.md (20 minutes)
	rm -rf "$$(tools/build --target-dir)/tmp/guarantees"
	for k8s in 1.34 1.36; do \
		tests/kubelet/prepare --k8s $$k8s; \
		tests/kubelet/run guarantees::; \
	done
	PODGATE_REGENERATE=measured $(cargo) test --locked --test kubelet guarantees::table

bench: ## What podgate costs: size, memory, latencies, what it adds to a pod's start, from Ready to the next start, the webhook (45 minutes)
	$(cargo) bench --locked --no-default-features --bench agent
	tests/kubelet/prepare --k8s $(K8S) --no-clock
	$(cargo) bench --locked --bench pod-start
	$(cargo) bench --locked --bench release
	tools/build podgate-webhook
	$(cargo) bench --locked --bench webhook

fuzz: ## Fuzz FUZZ=annotations, or another of fuzz/fuzz_targets, for TIME=60 seconds; needs nightly Rust and cargo-fuzz
	cd fuzz && cargo +nightly fuzz run $(FUZZ) -- -max_total_time=$(TIME)

##@ keep it clean

lint: ## rustfmt, clippy for each combination of features, shellcheck, cargo-deny
	@.ci/lint

docs-check: ## Links and anchors in the docs, rustdoc, and help as the docs have it
	.ci/docs-links
	RUSTDOCFLAGS="-D warnings" $(cargo) doc --locked --no-deps --lib --document-private-items
	$(cargo) test --locked --test kubectl_cli help

##@ the test cluster

cluster-up: ## Start the test cluster (K8S=1.34 for the older one)
	tests/cluster/cluster up --k8s $(K8S)

cluster-down: ## End it, and leave nothing
	tests/cluster/cluster down

cluster-status: ## What runs, and where things are
	tests/cluster/cluster status

setup: ## Only install what building needs
	@.ci/setup

clean: ## Remove what was built here (not the cluster, nor Kubernetes in ~/.cache/podgate)
	$(cargo) clean
	rm -rf fuzz/target
