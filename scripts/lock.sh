#!/bin/sh
# Resolves pyproject.toml into requirements/*.lock: names, versions and hashes, for every platform, nothing else.
set -eu
compile() {
    .venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-header --no-annotate "$@"
}
compile --allow-unsafe requirements/bootstrap.in -o requirements/bootstrap.lock
# The larger set first, so that the smaller one is a part of it.
compile pyproject.toml --group dev -o requirements/dev.lock
compile pyproject.toml -c requirements/dev.lock -o requirements/runtime.lock
