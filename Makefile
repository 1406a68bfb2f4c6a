# Run make alone for a list of targets.

GO ?= go
FUZZTIME ?= 10s
BENCHTIME ?= 1s
export CGO_ENABLED ?= 0

.DEFAULT_GOAL := help
.PHONY: help build demo test real fleet soak race fuzz bench bench-recorder lint cross man clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 16

build: ## build bin/xray
	$(GO) build -trimpath -o bin/xray ./cmd/xray

demo: build ## show the main job on a trace that comes with the project; needs only Go
	@GO=$(GO) script/demo

# With a profile, the go command compiles all packages once more, for cmd/xray.
test lint cross: export GOFLAGS := $(GOFLAGS) -pgo=off

# Packages whose tests take longest begin first, so that none of them runs alone at the end.
LONGEST := ./cmd/xray ./recorder

test: ## run all tests, after installing what they need; lint runs go vet
	@script/setup
	$(GO) test -vet=off -timeout 30m -parallel 4 $(LONGEST) ./...

real: ## record SQLite, Redis, nginx, PostgreSQL and others under load; fetches and builds them once
	@script/setup
	XRAY_REAL=1 $(GO) test -count=1 -timeout 120m -v ./internal/test/real

fleet: ## test fleet/ on a Spark cluster of processes, with an S3 API; fetches 2 GB once
	@script/setup
	@GO=$(GO) script/fleet test

soak: ## run tests at full length that test shortens, and hold the recorder's cost against bounds
	@script/setup
	XRAY_SOAK=1 $(GO) test -count=1 -timeout 60m ./recorder ./recorder/build
	XRAY_SOAK=1 $(GO) test -count=1 -timeout 120m ./internal/test/harmless
	XRAY_SOAK=1 $(GO) test -count=1 -timeout 60m -run 'TestPlantedReasons|TestPositions' ./explain/why ./recorder/args
	XRAY_SOAK=1 $(GO) test -count=1 -timeout 60m -run 'TestWatchSoak|TestLLVMDifferential' ./cmd/xray
	$(GO) run ./internal/test/benchrecorder -check

race: ## run all tests with the race detector, which needs cgo and a C compiler
	CGO_ENABLED=1 $(GO) test -race -pgo=off ./...

fuzz: ## run each fuzz target for FUZZTIME (10s)
	@GO=$(GO) script/fuzz $(FUZZTIME)

bench: build ## run the Go benchmarks, then measure against llvm-xray; BENCH=full adds 50 M records
	$(GO) test -run '^$$' -bench . -benchtime $(BENCHTIME) ./...
	$(GO) run ./internal/test/bench

bench-recorder: ## measure the recorder beside compiler-rt's, with programs of three versions of clang
	$(GO) run ./internal/test/benchrecorder

lint: ## check formatting, go vet, staticcheck, and that no function is unreachable
	@test -z "$$(gofmt -l .)" || { echo "not formatted:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@# Examples that print nothing that could be compared are compiled only.
	@dead=$$($(GO) tool deadcode -test ./...) && dead=$$(echo "$$dead" | sed '/example_test.go:/d') && test -z "$$dead" || { echo "$$dead"; exit 1; }

cross: ## check that everything compiles for other systems, with the tests for Linux
	GOOS=linux GOARCH=arm64 $(GO) vet ./...
	GOOS=darwin GOARCH=arm64 $(GO) build ./...
	GOOS=windows GOARCH=amd64 $(GO) build ./...

man: build ## write the man pages to man/
	bin/xray man man

clean: ## remove what was built
	rm -rf bin demo man
