#!/bin/bash
# Entrypoint of the postgres image. At the first start, this script creates the database, and runs the SQL files of
# /docker-entrypoint-initdb.d on a server without a port. The entrypoint of the official image does the same.
set -euo pipefail

export PGDATA=${PGDATA:-/var/lib/postgresql/data}
if [[ $1 == postgres && $(id -u) == 0 ]]; then
    install -d -o postgres -g postgres -m 700 "$PGDATA"
    install -d -o postgres -g postgres /run/postgresql
    exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
if [[ $1 == postgres && ! -s $PGDATA/PG_VERSION ]]; then
    initdb --username=postgres --auth=trust
    echo 'host all all all trust' >>"$PGDATA/pg_hba.conf"
    echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
    pg_ctl start --wait --silent --options "-c listen_addresses=''"
    for file in /docker-entrypoint-initdb.d/*.sql; do
        [[ ! -f $file ]] || psql --username=postgres --set=ON_ERROR_STOP=1 --file="$file"
    done
    pg_ctl stop --wait --silent --mode=fast
fi
exec "$@"
