# The only front door; CI calls nothing else.
SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
GO          ?= go
export CGO_ENABLED := 0
export SILK_HOME ?= $(CURDIR)/.silk
IMAGES      ?= lab:text lab:python lab:node lab:repo
LABS        ?= lab:quantum lab:evm
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
BUILD       := $(GO) build -trimpath -buildvcs=false
SENTRY      := driver/gvisor/sentrybin/files/silk-sentry
GATEWAY     := egress/process/files/silk-gateway
GUEST       := driver/firecracker/guestbin/files/silk-guest
# $(call images,TAG...) builds those that are missing or older than what makes them: compat:x is tests/compat/x.yaml.
images = @for i in $(1); do t=$$SILK_HOME/images/tags/$$i; f=; [[ $$i = lab:* || $$i = kernel ]] || f=tests/$${i/:/\/}.yaml; [ -f $$t ] && \
  [ -z "$$(find image $$f -name '*_test.go' -o -type f -newer $$t -print -quit)" ] || bin/silk image build $${f:+-f} $${f:-$$i}; done
# FAST are the packages that do not link the sandbox kernel, WHOLE the others and the tests of silk as one piece.
FAST  = $(shell $(GO) list -f '{{.ImportPath}} {{join .Deps " "}}' ./... | grep -v -e ' gvisor.dev/' -e '^[^ ]*/tests/' | cut -d' ' -f1)
WHOLE = $(filter-out $(FAST),$(shell $(GO) list ./...))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' Makefile

demo: build ## build silk and three images, run the examples in sandboxes
	$(call images,lab:python lab:node)
	@examples/demo

build: ## build bin/silk with its sandbox kernel inside, and lab:text (the first build takes minutes)
	driver/gvisor/patches/apply bin/gvisor
	$(BUILD) -modfile=bin/gvisor.mod -ldflags '-s -w' -o bin/silk-sentry ./cmd/silk-sentry
	$(BUILD) -modfile=bin/gvisor.mod -ldflags '-s -w' -o bin/silk-gateway ./cmd/silk-gateway
	$(BUILD) -ldflags '-s -w' -o bin/silk-guest ./cmd/silk-guest
	@for f in $(SENTRY) $(GATEWAY) $(GUEST); do install -m 0755 bin/$${f##*/} $$f; sha256sum < $$f | cut -d' ' -f1 > $$f.sha256; done
	$(BUILD) -ldflags '-s -w' -o bin/silk-attack ./cmd/silk-attack
	gzip -9nc bin/silk-attack > selftest/files/silk-attack.gz
	$(BUILD) -ldflags '-s -w -X main.version=$(VERSION)' -o bin/silk ./cmd/silk
	$(BUILD) -tags server -ldflags '-s -w -X main.version=$(VERSION)' -o bin/silk-server ./cmd/silk
	ln -sf silk bin/silk-runtime
	-$(call images,lab:text)

images: build ## build the lab images into $SILK_HOME (default: .silk)
	$(call images,$(IMAGES))

install: $(if $(shell command -v $(GO)),build images) ## install silk, its manual, completions and images under PREFIX (/usr/local)
	IMAGES='$(IMAGES)' deploy/install $(or $(PREFIX),/usr/local)

test: build images ## every test that this machine can run, real sandboxes included (SCOPE=rest: what race leaves out)
	$(call images,compat:python egress:curl kernel)
	SILK_TEST_HOME=$(SILK_HOME) tools/postgres tools/dockerd $(GO) test -p 2 -timeout 30m $(if $(filter rest,$(SCOPE)),$(WHOLE),./...)

test-labs: build images ## the programs of examples/labs in every lab, and the labs' images built twice (gigabytes, minutes)
	$(call images,$(LABS))
	SILK_TEST_HOME=$(SILK_HOME) SILK_TEST_LABS=all SILK_TEST_REQUIRE=images $(GO) test -count 1 -timeout 60m ./tests/labs

test-cgroup2: build ## limits under cgroup v2: Debian's kernel in QEMU (package qemu-system-x86), some minutes
	$(call images,lab:text)
	$(GO) run -buildvcs=false ./tests/cgroup2/boot -home $(SILK_HOME)

kernel: build ## a minimal kernel for virtual machines from Debian's source package, as the image kernel:minimal (tools/kernel/build says what it needs)
	tools/kernel/build bin/kernel
	bin/silk image build --vmlinux bin/kernel/vmlinux kernel:minimal

test-firecracker: build ## the same with the Firecracker of this host: SILK_FIRECRACKER=/path SILK_JAILER=/path, as root, with KVM
	$(call images,lab:text kernel)
	SILK_TEST_HOME=$(SILK_HOME) SILK_TEST_MICROVM=all SILK_TEST_REQUIRE=root,kvm,images $(GO) test -count 1 -timeout 60m -run Jail ./driver/firecracker

test-microvm: build images kernel ## conformance, rows, attacks and the way out in virtual machines, emulated where there is no KVM (package qemu-system-x86), by QEMU and by the doubles of Firecracker, with both kernels: hours
	$(call images,kernel egress:curl)
	SILK_TEST_HOME=$(SILK_HOME) SILK_TEST_MICROVM=all SILK_TEST_REQUIRE=qemu,images $(GO) test -count 1 -timeout 240m ./driver/firecracker/...
	SILK_KERNEL=kernel:minimal SILK_TEST_HOME=$(SILK_HOME) SILK_TEST_MICROVM=all SILK_TEST_REQUIRE=qemu,images $(GO) test -count 1 -p 1 -timeout 300m -run 'InMachines$$' ./tests/e2e ./tests/egress ./tests/escape

test-containers: build images ## the attack suites in containers whose runtime is silk, and deaths of their engine: many minutes (as root, with package docker.io)
	SILK_TEST_HOME=$(SILK_HOME) SILK_TEST_CONTAINERS=all tools/dockerd $(GO) test -count 1 -timeout 60m -run 'Selftests|Deaths' ./tests/runtime

lint-api: ## api/openapi.yaml by a linter of others (tools/openapi; needs npm)
	npm ci --silent --prefix tools/openapi
	REDOCLY_SUPPRESS_UPDATE_NOTICE=true tools/openapi/node_modules/.bin/redocly lint --config tools/openapi/redocly.yaml api/openapi.yaml

sdk: build lint-api ## the TypeScript client: the API's description and types up to date, lint, tests in Node and Chromium against bin/silk (needs npm and chromium)
	$(call images,lab:text)
	SILK_TEST_HOME=$(SILK_HOME) sdk/typescript/check

mcp: build ## silk mcp by an independent client, the TypeScript SDK of the protocol (needs Node 20 and npm)
	$(call images,lab:text lab:python)
	SILK_TEST_HOME=$(SILK_HOME) tests/interop/mcp/check

plugin: ## the Obsidian plugin in obsidian-plugin/dist: main.js, manifest.json, styles.css (needs npm)
	cd obsidian-plugin && npm ci --silent && npm run --silent build

plugin-check: build ## the plugin's types, lint and tests, in Node and in Chromium against bin/silk (needs npm and chromium)
	$(call images,lab:text)
	SILK_TEST_HOME=$(SILK_HOME) obsidian-plugin/check

test-short: ## tests that need no privileges, no images and no sandbox kernel
	$(GO) test -short -p 2 $(FAST)

race: build ## tests under the race detector, without the sandbox kernel (needs gcc)
	$(call images,lab:text kernel)
	SILK_TEST_HOME=$(SILK_HOME) CGO_ENABLED=1 tools/postgres tools/dockerd $(GO) test -race -p 2 -timeout 20m $(FAST)
	CGO_ENABLED=1 $(GO) test -race -tags server -run 'Note|MCP|Handoff' ./cmd/silk

fuzz: ## every fuzz target for FUZZTIME (30s), and the built silk against the host's kernel
	@for pkg in $(FAST); do for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	  $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(or $(FUZZTIME),30s) -fuzzminimizetime 10x $$pkg; done; done
	SILK_TEST_HOME=$(SILK_HOME) SILK_FUZZ_FOR=$(or $(FUZZTIME),30s) $(GO) test -count 1 -timeout 0 ./tests/fuzz

bench: build images ## compare with runc, runsc, bwrap and docker; write docs/benchmarks.md
	cd bench/runsc && $(BUILD) -ldflags '-s -w' -o ../../bin/runsc gvisor.dev/gvisor/runsc
	tools/dockerd bash -c 'DOCKER_HOST=$$SILK_TEST_DOCKER $(GO) run -buildvcs=false ./bench -out docs/benchmarks.md'

bench-microvm: build kernel ## measure virtual machines anew, and put that section into docs/benchmarks.md (package qemu-system-x86; minutes)
	$(call images,lab:text kernel)
	$(GO) run -buildvcs=false ./bench -insert -n 7 -out docs/benchmarks.md

lint: ## formatting, vet, staticcheck and our bans (.golangci.yml gives the reasons)
	$(GO) tool -modfile=tools/go.mod golangci-lint run --allow-parallel-runners ./...
	$(GO) tool -modfile=tools/go.mod golangci-lint run --allow-parallel-runners --build-tags server ./cmd/silk
generate: ## regenerate committed generated files
	driver/gvisor/patches/apply bin/gvisor
	$(GO) generate ./...
locks: ## resolve the lab images' packages anew with apt, rewrite the committed locks (ONLY='lab:web ...': of these)
	$(GO) run ./image/recipe/cmd/locks image/recipe/locks $(ONLY)
check: lint race ## lint, race, generated files up to date, client builds and vet for other systems
	@before=$$(git diff | sha256sum); $(MAKE) --no-print-directory generate; test "$$before" = "$$(git diff | sha256sum)" || \
	  { git --no-pager diff --stat; echo "generated files differ: commit what make generate wrote"; exit 1; }
	for t in darwin/arm64 windows/amd64 linux/arm64; do export GOOS=$${t%/*} GOARCH=$${t#*/}; $(BUILD) -o /dev/null ./cmd/silk; \
	  $(GO) vet $$($(GO) list -deps ./cmd/silk | grep ^github.com/silk-sandbox/); done
deb: build images ## build Debian packages in dist, the same bytes for the same commit
	IMAGES='$(IMAGES)' deploy/deb/build $(VERSION)

release: check test deb ## everything, plus known vulnerabilities (needs network) and checksums
	$(GO) tool -modfile=tools/go.mod govulncheck ./...
	cd dist && sha256sum *.deb > SHA256SUMS
clean: ## remove what make built; images in .silk stay
	rm -rf bin dist $(SENTRY)* $(GATEWAY)* $(GUEST)* selftest/files/*.gz
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*/\1/p' Makefile)
