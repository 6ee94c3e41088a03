# Two images, static binaries on nothing. The sidecar's (podgate-controller, and the agent podgate that it installs) is the one by
# default. The tool's (kubectl-podgate: the admission webhook, or `check` in a pipeline) is the target `kubectl`: apart, since every
# node with an injected Pod pulls the sidecar's, and the tool is several times its size.
#
#   docker buildx build --platform linux/amd64,linux/arm64 \
#     --build-arg VERSION=0.1.0 --build-arg REVISION=$(git rev-parse HEAD) \
#     --build-arg CREATED=$(date -u +%Y-%m-%dT%H:%M:%SZ) -t REGISTRY/podgate:0.1.0 .
#   docker buildx build --target kubectl … -t REGISTRY/kubectl-podgate:0.1.0 .
#
# arm64 is cross-built: nothing runs under emulation. tests/cluster/buildah-check runs this file with no registry.

# Any image with Debian's apt-get, rustup's cargo, and cc.
ARG RUST_IMAGE=docker.io/library/rust:1.95-slim-bookworm

FROM --platform=$BUILDPLATFORM ${RUST_IMAGE} AS build
ARG TARGETARCH=amd64

# The C compiler is for ring, and links. It need not know musl: ring's C code calls no C library,
# and Rust brings the musl that is linked.
RUN set -eu; \
    case "$TARGETARCH" in \
        amd64) target=x86_64-unknown-linux-musl gcc=x86_64-linux-gnu-gcc package=gcc-x86-64-linux-gnu libc=libc6-dev-amd64-cross ;; \
        arm64) target=aarch64-unknown-linux-musl gcc=aarch64-linux-gnu-gcc package=gcc-aarch64-linux-gnu libc=libc6-dev-arm64-cross ;; \
        *) echo "TARGETARCH=$TARGETARCH: must be amd64 or arm64" >&2; exit 1 ;; \
    esac; \
    if ! command -v "$gcc" >/dev/null; then \
        apt-get update; \
        apt-get install -y --no-install-recommends "$package" "$libc"; \
        rm -rf /var/lib/apt/lists/*; \
    fi; \
    rustup target add "$target"; \
    upper=$(echo "$target" | tr a-z- A-Z_); \
    { \
        echo "export TARGET=$target"; \
        echo "export CC_$(echo "$target" | tr - _)=$gcc"; \
        echo "export CARGO_TARGET_${upper}_LINKER=$gcc"; \
    } >/target.env

WORKDIR /src

# One cargo call a binary: within a call features unify, and the agent must have none of the controller's.
# It has a profile of its own, too: it ends at a panic.
RUN printf '%s\n' '. /target.env' 'set -eux' \
        'cargo build --profile agent --locked --target "$TARGET" --no-default-features --bin podgate' \
        'cargo build --release --locked --target "$TARGET" --no-default-features --features controller --bin podgate-controller' \
        >/build.sh

# The dependencies alone, with empty sources: a layer that stays until they change.
COPY Cargo.toml Cargo.lock ./
RUN set -eu; \
    for main in podgate podgate-controller kubectl-podgate; do \
        mkdir -p "src/bin/$main"; \
        echo 'fn main() {}' >"src/bin/$main/main.rs"; \
    done; \
    touch src/lib.rs; \
    echo 'fn main() {}' >build.rs; \
    sh /build.sh; \
    rm -r src build.rs

COPY build.rs ./
COPY src ./src
# Cargo goes by the time of change, and a copied file may be older than its empty stand-in.
RUN set -eu; \
    find build.rs src -type f -exec touch {} +; \
    sh /build.sh; \
    . /target.env; \
    mkdir -p /image/usr/bin /image/etc /image/tmp; \
    cp "target/$TARGET/agent/podgate" "target/$TARGET/release/podgate-controller" /image/usr/bin/; \
    chmod 0755 /image/usr/bin/*; \
    chmod 1777 /image/tmp; \
    printf '%s\n' 'root:x:0:0:root:/:/sbin/nologin' 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' >/image/etc/passwd; \
    printf '%s\n' 'root:x:0:' 'nonroot:x:65532:' >/image/etc/group

FROM build AS build-kubectl
RUN set -eux; \
    . /target.env; \
    cargo build --profile tool --locked --target "$TARGET" --no-default-features --features kubectl --bin kubectl-podgate; \
    rm /image/usr/bin/*; \
    cp "target/$TARGET/tool/kubectl-podgate" /image/usr/bin/; \
    chmod 0755 /image/usr/bin/*

FROM scratch AS kubectl
ARG VERSION=dev
ARG REVISION=
ARG CREATED=
ARG SOURCE=
LABEL org.opencontainers.image.title="kubectl-podgate" \
      org.opencontainers.image.description="Starts the containers of one Kubernetes Pod in a declared order, each only when those before it are Ready" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.created="$CREATED" \
      org.opencontainers.image.source="$SOURCE" \
      org.opencontainers.image.documentation="$SOURCE" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="podgate"
COPY --from=build-kubectl /image/ /
USER 65532:65532
ENTRYPOINT ["/usr/bin/kubectl-podgate"]

FROM scratch AS sidecar
ARG VERSION=dev
ARG REVISION=
ARG CREATED=
ARG SOURCE=
LABEL org.opencontainers.image.title="podgate" \
      org.opencontainers.image.description="Starts the containers of one Kubernetes Pod in a declared order, each only when those before it are Ready" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.created="$CREATED" \
      org.opencontainers.image.source="$SOURCE" \
      org.opencontainers.image.documentation="$SOURCE" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="podgate"
COPY --from=build /image/ /
USER 65532:65532
ENTRYPOINT ["/usr/bin/podgate-controller"]
