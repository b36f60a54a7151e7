# Every target works from a bare checkout on a machine with Go and make. `make help` explains them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# Libraries that take part in the version want it to begin like v1.2.3.
VERSION   ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null || echo v0.0.0-$$(git rev-parse --short HEAD 2>/dev/null || echo unknown))
BIN       := $(CURDIR)/bin
DIR       ?= $(CURDIR)/.cluster/dev
SIM_NODES ?= 10
# The tests of one package at most this long, on a machine that does other things too; the cold build of Kubernetes happens before.
TIMEOUT   ?= 20m
# What `make bench` measures: cloneset, statefulset, webhook, or parts of the latter; `go run ./test/bench -h` lists them.
PARTS     ?= cloneset statefulset webhook

BINARIES := $(notdir $(wildcard cmd/*))
LDFLAGS  := -s -w -X k8s.io/component-base/version.gitVersion=$(VERSION)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: $(BIN)/cluster ## Build the controllers and the local cluster's command into bin/
	@mkdir -p $(BIN)
	go build -trimpath -ldflags "$(LDFLAGS)" -o $(BIN)/ ./cmd/...

# The command itself is small; Kubernetes is compiled by `cluster up`, into a cache outside the tree.
.PHONY: $(BIN)/cluster
$(BIN)/cluster:
	@mkdir -p $(BIN)
	go build -C hack/cluster -trimpath -o $@ .

.PHONY: test
test: verify unit integration ## Run everything that must pass: generated files, unit tests, the real cluster

.PHONY: unit
unit: ## Run the tests that need no cluster, simulations included
	go vet ./...
	go test -timeout $(TIMEOUT) $$(go list ./... | grep -v /test/)
	go test -C hack/rules ./...
	go test -C hack/cluster $$(go -C hack/cluster list . ./internal/... 2>/dev/null)

.PHONY: integration
integration: build ## Run the scenarios on a real API server with simulated nodes
	$(BIN)/cluster build
	go test -count=1 -timeout $(TIMEOUT) -v ./test/integration/...

.PHONY: verify
verify: ## Fail if generated files are stale
	./hack/generate.sh --check

.PHONY: generate
generate: ## Generate deep copies, clients, CRDs and manifests
	./hack/generate.sh

.PHONY: lint
lint: ## Run the linters that hold the design's rules
	./hack/lint.sh

.PHONY: cluster-up
cluster-up: $(BIN)/cluster ## Start a local Kubernetes in DIR with SIM_NODES simulated nodes
	$(BIN)/cluster up --dir $(DIR) --sim-nodes $(SIM_NODES)

.PHONY: cluster-down
cluster-down: $(BIN)/cluster ## Stop the local Kubernetes in DIR, or all that were started from here
	@shopt -s nullglob; dirs=($(if $(filter command line,$(origin DIR)),$(DIR),$(CURDIR)/.cluster/*/)); left=0; \
	for d in "$${dirs[@]}"; do $(BIN)/cluster down --dir "$$d" || left=1; done; \
	if [[ $${#dirs[@]} == 0 ]]; then echo "No cluster runs that was started from here."; fi; \
	exit $$left

.PHONY: demo
demo: build ## Roll a CloneSet on a real API server and watch it
	@go build -trimpath -o $(BIN)/demo ./hack/demo
	@$(BIN)/demo --dir $(CURDIR)/.cluster/demo

.PHONY: bench
bench: build ## Measure the PARTS beside native kinds and beside what is promised
	go run ./test/bench -parts "$(PARTS)"

.PHONY: clean
clean: cluster-down ## Stop local clusters and remove what was built in the tree
	rm -rf $(BIN) $(CURDIR)/.cluster
