#!/usr/bin/env bash
# Generates deep copies, defaulters, clients, CRDs and the manifests of what is deployed. With --check it generates into a copy of the tree and fails if
# that differs from what is here.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
tools="$("$root/hack/tools/tools.sh")"
module=github.com/flotilla-k8s/flotilla

copy=""
tree="$root"
if [[ "${1:-}" == --check ]]; then
  copy="$(mktemp -d)"
  trap 'rm -rf "$copy"' EXIT
  tree="$copy"
  mkdir -p "$tree/hack"
  cp -r "$root/apis" "$root/deploy" "$root/internal" "$root/go.mod" "$root/go.sum" "$tree"
  cp -r "$root/hack/crds" "$root/hack/manifests" "$root/hack/boilerplate.go.txt" "$tree/hack"
elif [[ $# -gt 0 ]]; then
  echo "generate.sh: unknown argument $1; allowed is --check" >&2
  exit 2
fi

cd "$tree"
versions=(apis/apps/v1alpha1 apis/apps/v1beta1)
inputs=()
for v in "${versions[@]}"; do
  [[ -e $v/register.go ]] && inputs+=("$module/$v")
done
header=(--go-header-file hack/boilerplate.go.txt)

echo "generate: deep copies and defaults" >&2
rm -rf apis/client
find apis -name 'zz_generated.*.go' -delete
"$tools/deepcopy-gen" "${header[@]}" --output-file zz_generated.deepcopy.go "$module/apis/apps/pub" "${inputs[@]}"
"$tools/defaulter-gen" "${header[@]}" --output-file zz_generated.defaults.go "$module/apis/apps/v1beta1"

echo "generate: clients" >&2
# Every configuration that client-go has is used as it is there.
external=()
for group in core/v1 apps/v1 batch/v1; do
  # Naming a package, and not only its module, also downloads it.
  dir="$(go list -f '{{.Dir}}' "k8s.io/client-go/applyconfigurations/$group")"
  kinds="$(sed -n 's/^type \([A-Za-z0-9]*\)ApplyConfiguration struct {$/\1/p' "$dir"/*.go)"
  for kind in $kinds; do
    external+=(--external-applyconfigurations "k8s.io/api/$group.$kind:k8s.io/client-go/applyconfigurations/$group")
  done
done
"$tools/applyconfiguration-gen" "${header[@]}" "${external[@]}" \
  --output-dir apis/client/applyconfiguration --output-pkg "$module/apis/client/applyconfiguration" "${inputs[@]}"
"$tools/client-gen" "${header[@]}" --clientset-name versioned --input-base "" --fake-clientset=true \
  --apply-configuration-package "$module/apis/client/applyconfiguration" \
  --output-dir apis/client/clientset --output-pkg "$module/apis/client/clientset" \
  $(printf -- '--input %s ' "${inputs[@]}")
"$tools/lister-gen" "${header[@]}" --output-dir apis/client/listers --output-pkg "$module/apis/client/listers" "${inputs[@]}"
"$tools/informer-gen" "${header[@]}" --versioned-clientset-package "$module/apis/client/clientset/versioned" \
  --listers-package "$module/apis/client/listers" \
  --output-dir apis/client/informers --output-pkg "$module/apis/client/informers" "${inputs[@]}"

echo "generate: CRDs" >&2
raw="$(mktemp -d)"
trap 'rm -rf "$copy" "$raw"' EXIT
"$tools/controller-gen" crd:generateEmbeddedObjectMeta=true,allowDangerousTypes=true paths=./apis/apps/... output:crd:dir="$raw"
rm -rf deploy/crds
go run ./hack/crds "$raw" deploy/crds

echo "generate: manifests" >&2
go run ./hack/manifests deploy

[[ -z "$copy" ]] && exit 0
stale="$({ diff -rq "$root/apis" "$tree/apis"; diff -rq "$root/deploy" "$tree/deploy"; } || true)"
if [[ -n "$stale" ]]; then
  echo "generated files are stale; run make generate and commit the result:" >&2
  sed "s#$tree/#fresh #g; s#$root/##g" <<<"$stale" >&2
  exit 1
fi
echo "generated files are up to date" >&2
