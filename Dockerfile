# The server as an unprivileged user. The data directory is a volume; everything else stays as it was built.
FROM node:24-bookworm-slim

# Of pg_dump and psql the version of your PostgreSQL is needed: Debian's own is older than most servers.
ARG POSTGRESQL_VERSION=18
RUN apt-get update \
 && apt-get install --yes --no-install-recommends make g++ python3 git bubblewrap ripgrep jq util-linux ca-certificates tini \
      postgresql-common \
 && /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh -y \
 && apt-get install --yes --no-install-recommends postgresql-client-${POSTGRESQL_VERSION} \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 service \
 && install --directory --owner=service --group=service /app /data

WORKDIR /app
COPY --chown=service:service . .
USER service
RUN make install generate compile
# The embedding model. A build that reaches no model hub goes on without it: search is then full text alone.
RUN make embedder || true

# Outside of loopback the first start prints a one-time token for the operator instead of a key.
ENV SERVICE_HOST=0.0.0.0 SERVICE_PORT=8090 SERVICE_DATA_DIR=/data
VOLUME /data
EXPOSE 8090
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["node_modules/.bin/node", "--eval", "fetch('http://127.0.0.1:8090/ready').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# The first process of a container has to reap what its sandboxes leave, which Node does not.
ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["node_modules/.bin/node", "server/start.mjs"]
