# The commands of this repository. `make test` is what a change must pass, and what .ci/run runs.

GO          ?= go
# Staticcheck and vet look at the code as it is built for the tests, with -race: so a cold machine compiles everything once.
STATICCHECK  = $(GO) run -exec 'env GOFLAGS=-race' honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOTESTSUM    = $(GO) run gotest.tools/gotestsum@v1.13.0 --format pkgname-and-test-fails --format-hide-empty-pkg
FUZZTIME    ?= 20s
MINUTES     ?= 2
SEED        ?= 1

.DEFAULT_GOAL := help
.PHONY: help test quick lint fmt fuzz mutate chaos bench demo

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: lint ## everything: lint, then all tests with the race detector, real Kafka and Redis included; lists what it had to skip
	@scripts/need-servers
	$(GOTESTSUM) -- -race -vet=off -parallel 8 -timeout 12m ./...

quick: ## all tests that need no real server
	$(GOTESTSUM) --hide-summary skipped -- -race -vet=off -short ./...

lint: ## formatting, go vet, staticcheck
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; }
	$(GO) vet -race ./...
	$(STATICCHECK) ./...

fmt: ## format all code
	gofmt -w .

fuzz: ## each fuzz test for FUZZTIME (20s)
	@grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do \
		grep -oE '^func Fuzz[A-Za-z0-9_]+' "$$file" | while read -r _ name; do \
			echo "$$name in $$file"; \
			$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" </dev/null || exit 1; \
		done || exit 1; \
	done

mutate: ## break the code on purpose, a hundred times, and see the tests notice: a quarter of an hour
	$(GO) run ./scripts/mutate

chaos: ## MINUTES (2) of members, brokers and Redis that die, on real servers; repeatable by its SEED (1)
	$(GO) run ./bench/chaos -minutes $(MINUTES) -seed $(SEED)

bench: ## the benchmark, against an embedded broker
	$(GO) run ./bench

demo: ## the demo: an outage, in half a minute
	$(GO) run ./cmd/demo
