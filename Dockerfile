# Two images with static binaries and no base image. The default is the sidecar (podgate-controller, and the agent
# podgate that it installs). The target `webhook` is the admission webhook (podgate-webhook). The images are separate to
# keep the sidecar's image small, because every node with an injected Pod pulls that image.
#
#   docker buildx build --platform linux/amd64,linux/arm64 \
#     --build-arg VERSION=0.1.0 --build-arg REVISION=$(git rev-parse HEAD) \
#     --build-arg CREATED=$(date -u +%Y-%m-%dT%H:%M:%SZ) -t REGISTRY/podgate:0.1.0 .
#   docker buildx build --target webhook --build-arg PODGATE_IMAGE_REGISTRY=REGISTRY … -t REGISTRY/podgate-webhook:0.1.0 .
#
# arm64 is cross-compiled, without emulation. `make dockerfile` tests this file without a registry.

# The base image needs Debian's apt-get, rustup's cargo, and cc. Dependabot renews the image's digest, but finds it only
# in FROM, not in ARG. For another version of Rust, write the new tag with its digest.
FROM --platform=$BUILDPLATFORM docker.io/library/rust:1.95-slim-bookworm@sha256:d7482085ff5b415f84dba5647ae71606650bdef00db7aeb69f4b3d170c3e4082 AS build
ARG TARGETARCH=amd64

# Install a C compiler for the target, which compiles ring and links the programs. tools/build finds the compiler.
RUN set -eu; \
    case "$TARGETARCH" in \
        amd64) machine=x86_64 package=gcc-x86-64-linux-gnu libc=libc6-dev-amd64-cross ;; \
        arm64) machine=aarch64 package=gcc-aarch64-linux-gnu libc=libc6-dev-arm64-cross ;; \
        *) echo "TARGETARCH=$TARGETARCH: must be amd64 or arm64" >&2; exit 1 ;; \
    esac; \
    if ! command -v "$machine-linux-gnu-gcc" >/dev/null; then \
        apt-get update; \
        apt-get install -y --no-install-recommends "$package" "$libc"; \
        rm -rf /var/lib/apt/lists/*; \
    fi; \
    rustup target add "$machine-unknown-linux-musl"; \
    echo "export PODGATE_TARGET=$machine-unknown-linux-musl" >/target.env

WORKDIR /src

# Builds only the dependencies, with empty sources, so that this layer stays cached until the dependencies change.
COPY Cargo.toml Cargo.lock ./
COPY tools ./tools
RUN set -eu; \
    for main in podgate podgate-controller podgate-webhook kubectl-podgate; do \
        mkdir -p "src/bin/$main"; \
        echo 'fn main() {}' >"src/bin/$main/main.rs"; \
    done; \
    touch src/lib.rs; \
    echo 'fn main() {}' >build.rs; \
    . /target.env; \
    tools/build podgate podgate-controller; \
    rm -r src build.rs

COPY build.rs ./
COPY src ./src
# Cargo compares modification times, so update them: a copied file may be older than its empty placeholder.
RUN set -eu; \
    find build.rs src -type f -exec touch {} +; \
    mkdir -p /image/etc /image/tmp; \
    chmod 1777 /image/tmp; \
    printf '%s\n' 'root:x:0:0:root:/:/sbin/nologin' 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' >/image/etc/passwd; \
    printf '%s\n' 'root:x:0:' 'nonroot:x:65532:' >/image/etc/group

FROM build AS build-sidecar
RUN set -eu; \
    . /target.env; \
    programs=$(tools/build podgate podgate-controller); \
    install -D -m 0755 -t /image/bin $programs

FROM build AS build-webhook
# The registry of the sidecar's image, if it differs from the registry in src/order/release.rs.
ARG PODGATE_IMAGE_REGISTRY
RUN set -eu; \
    . /target.env; \
    program=$(tools/build podgate-webhook); \
    install -D -m 0755 -t /image/bin "$program"

FROM scratch AS webhook
ARG VERSION=dev
ARG REVISION=
ARG CREATED=
ARG SOURCE=
LABEL org.opencontainers.image.title="podgate-webhook" \
      org.opencontainers.image.description="Starts the containers of one Kubernetes Pod in a declared order, each only when those before it are Ready" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.created="$CREATED" \
      org.opencontainers.image.source="$SOURCE" \
      org.opencontainers.image.documentation="$SOURCE" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="podgate"
COPY --from=build-webhook /image/ /
USER 65532:65532
ENTRYPOINT ["/bin/podgate-webhook"]

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
COPY --from=build-sidecar /image/ /
USER 65532:65532
ENTRYPOINT ["/bin/podgate-controller"]
