#!/bin/sh
# Resolves pyproject.toml into requirements/*.lock: names, versions and hashes, for every platform, nothing else.
set -eu
compile() {
    .venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-header --no-annotate "$@"
}
compile --allow-unsafe requirements/bootstrap.in -o requirements/bootstrap.lock
compile pyproject.toml -o requirements/runtime.lock
compile pyproject.toml --group dev -c requirements/runtime.lock -o requirements/dev.lock
