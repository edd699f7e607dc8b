# The image of Parley. To build it: docker build -t parley .   docs/install.md explains how to run it.
# Debian slim, not Alpine: Node's official builds are for glibc; builds for musl are unofficial and less tested.
# A release passes the digest of the base, so that the same commit always gives the same image: --build-arg NODE_IMAGE=node@sha256:…
ARG NODE_IMAGE=node:26-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json ./
COPY client/package.json client/
COPY examples/package.json examples/
COPY json-schema/package.json json-schema/
COPY test/generators/package.json test/generators/
# Without install scripts, which download runtimes for the tests.
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY scripts/build.ts scripts/
COPY client/src client/src
COPY json-schema/src json-schema/src
COPY src src
RUN node scripts/build.ts && chmod +x dist/src/main.js
# The packages that the tests use, without development dependencies.
RUN npm ci --omit=dev --ignore-scripts --workspaces=false

FROM ${NODE_IMAGE}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Parley" \
      org.opencontainers.image.description="A server that runs AI message jobs" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /build/package.json /opt/parley/
COPY --from=build /build/node_modules /opt/parley/node_modules
COPY --from=build /build/dist /opt/parley/dist
# The working directory of the server: it reads parley.config.json here, and ./data contains the database file and the admin token.
WORKDIR /parley
RUN ln -s /opt/parley/dist/src/main.js /usr/local/bin/parley && mkdir data && chown 1000:1000 data
# The user node, as a number: Kubernetes cannot tell from a name that it is not root.
USER 1000:1000
VOLUME /parley/data
ENV HOST=0.0.0.0 PORT=8080
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/healthz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# Running jobs get jobs.drain_seconds (20) to finish, so allow more than Docker's default of 10 s: docker stop --time 30.
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "--max-semi-space-size=64", "/opt/parley/dist/src/main.js"]
CMD ["serve"]
