#!/usr/bin/env bash
# Builds the pinned linter once, outside the tree, and runs it on every package of the main module
# and of the local cluster.
set -euo pipefail
cd "$(dirname "$0")/.."

key=$(cat hack/lint/go.mod hack/lint/go.sum <(go env GOVERSION) | sha256sum | cut -c1-16)
linter=${XDG_CACHE_HOME:-$HOME/.cache}/flotilla/lint-$key/golangci-lint
if [[ ! -x $linter ]]; then
  echo "Building golangci-lint; this takes some minutes, once."
  go build -C hack/lint -trimpath -o "$linter.$$" github.com/golangci/golangci-lint/v2/cmd/golangci-lint
  mv "$linter.$$" "$linter"
fi

"$linter" run "$@" ./...
# The other packages of the local cluster are made of Kubernetes itself, which takes long to load and is checked elsewhere.
(cd hack/cluster && "$linter" run --config ../../.golangci.yml "$@" . ./internal/... ./test/...)
