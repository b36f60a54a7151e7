#!/usr/bin/env bash
# Prints the folder with the generators, building them first if this version of them is not there yet. They are
# kept outside the tree by content, so that a second checkout or a clean one finds them.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
key="$(cat "$here/go.mod" "$here/go.sum" <(go env GOVERSION) | sha256sum | cut -c1-16)"
dir="${XDG_CACHE_HOME:-$HOME/.cache}/flotilla/tools-$key"
if [[ ! -e "$dir/.complete" ]]; then
  echo "building the generators (once, about a minute)" >&2
  mkdir -p "$dir"
  (cd "$here" && GOFLAGS=-trimpath GOBIN="$dir" go install tool)
  touch "$dir/.complete"
fi
echo "$dir"
