# sidestep: everything a developer needs. `make` or `make help` lists the targets.

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS   = -s -w -X main.version=$(VERSION)
# Without the tag gRPC brings text/template, which calls methods by name: the linker
# then keeps every exported method, and the binary is 3 MB larger.
TAGS      = grpcnotrace
SOURCES   = ./cmd/... ./internal/... ./deploy/...
# test is a module of its own, which ./... leaves out.
ALL       = ./... ./test/...
# Whatever runs without the race detector is compiled as the binaries are, once for all.
PLAIN     = CGO_ENABLED=0 GOFLAGS="$$($(GO) env GOFLAGS) -trimpath -tags=$(TAGS)"

GOLANGCI_VERSION = v2.15.0
GOLANGCI         = $(CURDIR)/.cache/golangci-lint-$(GOLANGCI_VERSION)/golangci-lint

ENGINE         ?=
ENGINE_VERSION ?=
NODES          ?= 3
FUZZTIME       ?= 30s
BENCHTIME      ?= 200ms
MEASURED        = -engine $(or $(ENGINE),opensearch) -version '$(ENGINE_VERSION)'

# $(call provide,PACKAGE …) installs packages where that can be done, else names them.
provide = if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $(1); \
	else echo "missing: $(1) (Debian: apt-get install $(1))" >&2; exit 1; fi

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## build the static binaries bin/sidestep and bin/sidestep-lab
	CGO_ENABLED=0 $(GO) build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -o bin/ ./cmd/sidestep ./cmd/sidestep-lab

.PHONY: release
release: ## build the archives, SBOMs and checksums of a release in dist; VERSION=1.2.3
	rm -rf dist
	$(GO) run ./deploy/release -version '$(VERSION)' -out dist
	cat dist/SHA256SUMS

CHECKED = .cache/release

.PHONY: release-check
release-check: ## build a release twice, in two folders and with two build caches, and compare; 10 minutes
	rm -rf $(CHECKED)
	for copy in one another; do \
		git clone -q . $(CHECKED)/$$copy/sources; \
		GOCACHE=$(CURDIR)/$(CHECKED)/$$copy/cache $(GO) run ./deploy/release -version 0.0.0 \
			-root $(CHECKED)/$$copy/sources -out $(CHECKED)/$$copy/dist; \
	done
	diff -r $(CHECKED)/one/dist $(CHECKED)/another/dist
	rm -rf $(CHECKED)

.PHONY: demo
demo: build ## show sidestep at work on a simulated cluster; ENGINE=opensearch: on a real one
	$(if $(ENGINE),$(GO) run ./test/demo -engine $(ENGINE),bin/sidestep-lab demo)

# make check vets all of it.
TEST = $(GO) test -vet=off

# The race detector needs a C compiler; without one the tests run all the same. Without paths of
# the folder in what is compiled another clone need not compile it again.
RACE = $$(if [ "$$($(GO) env CGO_ENABLED)" = 1 ] && printf '\043include <stdlib.h>\n' | $$($(GO) env CC) -E -x c - >/dev/null 2>&1; \
	then echo -race -trimpath; else echo 'note: no C compiler, tests run without the race detector' >&2; fi)

# Else each process waits for a second when its tests have ended.
export GORACE ?= atexit_sleep_ms=0

.PHONY: test
test: build ## run all tests: unit, integration, real clusters, chaos
	$(MAKE) --no-print-directory -j4 test-timed test-computed tools $(BESIDE)
	$(MAKE) --no-print-directory test-real

# The first tests leave enough of the CPU for the check.
.PHONY: ci
ci: BESIDE = check
ci: test ## what must pass before a change is taken: check and test

# One after the other: two of them may want the lock of apt.
.PHONY: tools
tools:
	@$(MAKE) --no-print-directory -j1 clients prometheus page-tools

# Most tests of these have one goroutine, or several that share nothing that changes: the race detector has
# nothing to watch there and makes them ten times as long. It watches the others.
SINGLE   = sidestep/internal/sim/lab sidestep/internal/bulk sidestep/internal/selection
PARALLEL = ^Test(RunWrites|RunEnds|SweepEnds|BalanceConcurrently|BooksAreSafeForConcurrentUse|EveryLeaseReturnedMeansNothingOutstanding)

# These do what others do, which the race detector watches, but with hundreds of sidesteps or
# nodes, or a gigabyte.
LARGE    = ^(TestPollsOfAllStayBelowTheCeiling|TestPlacementAndDiscoveryHaveACeiling)$$/^(16|60|120|500)(,|$$)|^Test(OneSidestepHasABudget|LongPlacements|LargeBulksTakeLittleMemory)$$
LARGE_IN = ./internal/cluster/poll ./internal/proxy

# With the race detector other system calls take the place of those that the scheduler is not
# told of.
RAW = ./internal/rawsocket ./internal/leg

# Nothing runs at once in these.
ORDERLY = sidestep/deploy/release sidestep/docs

# In it whole clusters of simulated nodes answer within deadlines: nothing else has a claim to the machine.
APP   = sidestep/internal/app
# The longest begin first: at the end one alone would leave the other cores idle.
LONGEST = sidestep/internal/proxy sidestep/internal/cluster/relay sidestep/internal/cluster/poll sidestep/cmd/sidestep
RACED = $(LONGEST) $(filter-out $(LONGEST) $(APP) $(SINGLE) $(ORDERLY),$(shell $(GO) list $(SOURCES)))

.PHONY: test-fast
test-fast: ## run the unit and integration tests (Go only)
	$(MAKE) --no-print-directory -j2 test-timed test-computed

# What must come about in these has its time.
.PHONY: test-timed
test-timed:
	@$(MAKE) --no-print-directory test-units
	@$(MAKE) --no-print-directory test-app

.PHONY: test-app
test-app:
	race=$(RACE); \
	if [ -z "$$race" ]; then export $(PLAIN); fi; \
	$(TEST) $$race -shuffle=on -timeout 20m $(APP)

# What these come to does not depend on how long it takes. Beside test-timed, which mostly waits, they take
# what that leaves of the CPU. Linux has a policy for that, with which nobody else waits at all. They
# may wait for long in turn, so their timeout is one of hours.
LEFT_OVER = $(shell if chrt --idle 0 true 2>/dev/null; then echo chrt --idle 0; else echo nice -n 19; fi)

.PHONY: test-computed
test-computed:
	race=$(RACE); \
	if [ -n "$$race" ]; then \
		$(LEFT_OVER) $(TEST) $$race -shuffle=on -run '$(PARALLEL)' -timeout 2h $(SINGLE); \
		$(PLAIN) $(LEFT_OVER) $(TEST) -shuffle=on -run '$(LARGE)' -timeout 2h $(LARGE_IN); \
	fi; \
	$(PLAIN) $(LEFT_OVER) $(TEST) -shuffle=on -timeout 2h $(SINGLE) $(ORDERLY)

# Of RACED some packages mostly wait, too.
ASIDE = $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((n < 3 ? 3 : n)))

.PHONY: test-units
test-units:
	race=$(RACE); \
	if [ -z "$$race" ]; then $(PLAIN) $(TEST) -shuffle=on -timeout 10m $(RACED); exit; fi; \
	$(TEST) $$race -shuffle=on -p $(ASIDE) -skip '$(LARGE)' -timeout 10m $(RACED); \
	$(PLAIN) $(TEST) -shuffle=on -timeout 10m $(RAW)

# Two runs of test/e2e at a time: with more they start and answer so slowly on two cores that nothing is
# gained. test/chaos has the machine alone, as it degrades nodes that are to be told from well ones.
ALONE        = sidestep/test/chaos
END_TO_END   = sidestep/test/e2e
DIFFERENTIAL = sidestep/test/differential
LONGEST_REAL = sidestep/test/page sidestep/test/prometheus sidestep/test/overload
OTHERS       = $(LONGEST_REAL) $(filter-out $(LONGEST_REAL) $(ALONE) $(END_TO_END) $(DIFFERENTIAL),$(shell $(GO) list ./test/...))
# Those of its tests that have a sidestep or a cluster of their own mostly wait.
TEST_E2E     = $(TEST) -count=1 -parallel 4 -timeout 40m $(END_TO_END)

.PHONY: test-real
test-real: build tools ## run the tests on real clusters (need JDK 21+ and Maven)
	$(MAKE) --no-print-directory -j2 test-opensearch test-elasticsearch
	$(PLAIN) $(TEST) -count=1 -timeout 40m $(ALONE)

# The others start no engine. Of the longest of them, which begin first, test/prometheus mostly waits.
.PHONY: test-opensearch
test-opensearch:
	$(PLAIN) $(TEST_E2E)
	$(PLAIN) $(TEST) -count=1 -p 2 -parallel 4 -timeout 40m $(OTHERS)

# The comparison is on OpenSearch, too. It is here so that both take as long.
.PHONY: test-elasticsearch
test-elasticsearch:
	$(PLAIN) SIDESTEP_ENGINE=elasticsearch $(TEST_E2E)
	$(PLAIN) $(TEST) -count=1 -timeout 40m $(DIFFERENTIAL)

# Every engine and version that is supported, one after the other. The client libraries
# are those of the newest versions; the secured cluster is of one version.
ENGINES = opensearch:3.6.0 opensearch:2.19.6 elasticsearch:9.2.0 elasticsearch:8.19.4 elasticsearch:7.17.10

.PHONY: test-engines
test-engines: build ## run test/e2e on each of ENGINES (need JDK 17 and JDK 21+, Maven)
	@failed=; for engine in $(ENGINES); do \
		echo "== $$engine"; \
		SIDESTEP_ENGINE=$${engine%%:*} SIDESTEP_ENGINE_VERSION=$${engine##*:} $(GO) test -v -count=1 -timeout 40m -skip "TestClients|TestSecured" ./test/e2e | grep -v '^=== ' || failed="$$failed $$engine"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

CLIENTS = .cache/clients
PAGE    = .cache/page

.PHONY: test-clients
test-clients: build clients ## run real client libraries through sidestep, on both engines
	SIDESTEP_ENGINE=opensearch $(GO) test -count=1 -v -timeout 40m -run TestClients ./test/e2e
	SIDESTEP_ENGINE=elasticsearch $(GO) test -count=1 -v -timeout 40m -run TestClients ./test/e2e

.PHONY: clients
clients: $(CLIENTS)/python/installed $(CLIENTS)/js/installed ## install the client libraries that are tested into .cache
	cd test/clients/go && $(PLAIN) GOWORK=off $(GO) build -o $(CURDIR)/$(CLIENTS)/bin/ ./elasticsearch ./opensearch ./flood

$(CLIENTS)/python/installed: test/clients/python/requirements.txt
	@python3 -c 'import ensurepip, venv' 2>/dev/null || { $(call provide,python3-venv); }
	python3 -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

$(CLIENTS)/js/installed: test/clients/js/package.json
$(PAGE)/installed: test/page/package.json
$(CLIENTS)/js/installed $(PAGE)/installed:
	@{ command -v node && command -v npm; } >/dev/null || { $(call provide,nodejs npm); }
	mkdir -p $(@D)
	cp $< $(@D)
	npm install --prefix $(@D) --no-audit --no-fund --no-package-lock --loglevel=error
	touch $@

# The package is unpacked, not installed: no service is started.
PROMETHEUS = .cache/prometheus/usr/bin/prometheus

.PHONY: prometheus
prometheus: ## fetch Prometheus and promtool, which are tested against, into .cache unless they are installed
	@{ command -v prometheus && command -v promtool; } >/dev/null || $(MAKE) --no-print-directory $(PROMETHEUS)

$(PROMETHEUS):
	@command -v apt-get >/dev/null || { echo "missing: prometheus and promtool" >&2; exit 1; }
	mkdir -p .cache/prometheus
	cd .cache/prometheus && { apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; }
	dpkg-deb -x .cache/prometheus/prometheus_*.deb .cache/prometheus

.PHONY: test-prometheus
test-prometheus: prometheus ## run rules and dashboard against a real Prometheus; a minute
	$(GO) test -count=1 -v -timeout 10m ./test/prometheus

.PHONY: dashboard
dashboard: ## generate deploy/grafana/sidestep.json
	mkdir -p bin
	$(GO) run ./deploy/grafana/generate > bin/sidestep.json
	mv bin/sidestep.json deploy/grafana/sidestep.json

BROWSERS = chromium chromium-browser google-chrome google-chrome-stable

.PHONY: test-page
test-page: page-tools ## open the web page in a headless browser; a minute
	$(GO) test -count=1 -timeout 10m ./test/page

.PHONY: page-tools
page-tools: $(PAGE)/installed ## install the browser and the accessibility checker of test-page
	@for browser in $(BROWSERS); do if command -v $$browser >/dev/null; then exit 0; fi; done; $(call provide,chromium fonts-dejavu-core)

.PHONY: docs-words
docs-words: ## count the words of README.md, and of the sentences of all documents
	$(GO) test -count=1 -v -run TestWords ./docs

.PHONY: check
check: check-format check-mod check-lint ## check format, go.mod and lint rules, which are those of go vet and more

.PHONY: check-format
check-format:
	@files=$$(gofmt -s -l $$(git ls-files -co --exclude-standard '*.go')); \
	if [ -n "$$files" ]; then echo "gofmt -s -w needed:"; echo "$$files"; exit 1; fi

.PHONY: format
format: $(GOLANGCI) ## format the Go files
	$(GOLANGCI) fmt

PARTS = $(GO) list -deps -f '{{with .Module}}{{.Path}} {{.Version}}{{end}}' ./cmd/...

.PHONY: check-mod
check-mod:
	$(GO) mod tidy -diff
	cd test && $(GO) mod tidy -diff
	$(GO) mod verify
	@# What the product is built of must not depend on what test/ asks for.
	diff <(GOWORK=off $(PARTS) | sort -u) <($(PARTS) | sort -u)

# govet among its linters runs every analyzer of go vet.
.PHONY: check-lint
check-lint: $(GOLANGCI)
	$(PLAIN) $(LEFT_OVER) $(GOLANGCI) run --timeout 2h --allow-parallel-runners $(ALL)

$(GOLANGCI):
	$(PLAIN) GOBIN=$(dir $@) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s) each
	@grep -rno --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' internal | \
	while IFS=: read -r file _ name; do \
		name=$${name#func }; echo "== $$name ($$(dirname $$file))"; \
		$(GO) test -run='^$$' -fuzz="^$$name\$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x ./$$(dirname $$file) </dev/null; \
	done

.PHONY: bench
bench: bench-micro bench-overhead ## run microbenchmarks and compare the overhead with other proxies

.PHONY: bench-micro
bench-micro: ## run the Go microbenchmarks, BENCHTIME (200ms) each
	$(GO) test -run='^$$' -bench=. -benchtime=$(BENCHTIME) -timeout 10m $(SOURCES) | grep -v 'no test files'

.PHONY: bench-lab
bench-lab: build ## compare policies in virtual time, five seeds, and keep the tables; 8 minutes
	bin/sidestep-lab lab --seeds 5 > test/bench/results/lab.txt

.PHONY: lab-random
lab-random: build ## play N (500) random scenarios of SEED (1) in virtual time, lines to OUT (lab-random.jsonl), with a plot; 20 minutes
	bin/sidestep-lab random --n $(or $(N),500) --seed $(or $(SEED),1) --out $(or $(OUT),lab-random.jsonl) --plot $(basename $(or $(OUT),lab-random.jsonl)).svg

.PHONY: lab-random-control
lab-random-control: build ## play N (200) random scenarios of SEED (1) with the engine against itself: how much of a ratio is chance; 4 minutes
	bin/sidestep-lab random --control --n $(or $(N),200) --seed $(or $(SEED),1) --out $(or $(OUT),lab-random-control.jsonl) --plot $(basename $(or $(OUT),lab-random-control.jsonl)).svg

SENSITIVITY ?=

.PHONY: bench-sensitivity
bench-sensitivity: ## play the lab with each constant of the selection halved and doubled, and each rule off; 40 minutes; SENSITIVITY='-only FarFactor -continue …'
	$(GO) build -trimpath -o bin/sensitivity ./test/bench/sensitivity
	bin/sensitivity $(SENSITIVITY)

.PHONY: bench-scale
bench-scale: build ## measure clusters of up to 500,000 shards, and a storm of relocations; 10 minutes
	$(GO) build -trimpath -o bin/scale ./test/bench/scale
	bin/scale -sidestep bin/sidestep -out test/bench/results/scale.md

.PHONY: bench-overhead
bench-overhead: build bench-peers ## compare latency, CPU, system calls and more with ReverseProxy, nginx and haproxy; 2 minutes
	$(GO) build -trimpath -o bin/overhead ./test/bench/overhead
	bin/overhead -sidestep bin/sidestep

.PHONY: bench-memory
bench-memory: build bench-peers ## compare memory with 1,000 busy connections and 5,000 slow uploads; 2 minutes
	$(GO) build -trimpath -o bin/overhead ./test/bench/overhead
	bin/overhead -sidestep bin/sidestep -memory -window 5s

.PHONY: bench-fleet
bench-fleet: ## count what a fleet asks a cluster, with a relay and without; 5 minutes
	$(GO) run ./test/bench/fleet

.PHONY: bench-watching
bench-watching: build ## compare sidestep with everything on that watches and with all of it off; 4 minutes
	$(GO) run ./test/bench/watching

BULK ?=

.PHONY: bench-bulk
bench-bulk: build ## measure bulks to a real cluster with a degraded node, 16 minutes; ENGINE, BULK='-cases a,b -rounds 3 …'
	$(GO) build -trimpath -o bin/bulk ./test/bench/bulk
	bin/bulk $(MEASURED) $(BULK)

ADMISSION ?=

.PHONY: bench-admission
bench-admission: build ## measure overload of a real cluster whose nodes are short of CPU, 20 minutes; ENGINE, ADMISSION='-loads 1.5 -rounds 3 …'
	$(GO) build -trimpath -o bin/admission ./test/bench/admission
	bin/admission $(MEASURED) $(ADMISSION)

SOAK ?=

.PHONY: soak
soak: build ## load while clients abort, nodes die and TLS restarts: nothing may be left over; 13 minutes; SOAK='-duration 1m …'
	$(GO) build -trimpath -o bin/soak ./test/soak
	bin/soak -sidestep bin/sidestep $(SOAK)

.PHONY: bench-peers
bench-peers:
	@PATH=$$PATH:/usr/sbin; missing=; \
	command -v nginx >/dev/null || missing="$$missing nginx-light"; \
	command -v haproxy >/dev/null || missing="$$missing haproxy"; \
	command -v strace >/dev/null || missing="$$missing strace"; \
	[ -z "$$missing" ] || { $(call provide,$$missing); }

CHAOS ?=

.PHONY: chaos
chaos: chaos-timed chaos-table chaos-full ## assert how soon faults are found, and measure degraded nodes and full clusters, 85 minutes; ENGINE

.PHONY: chaos-timed
chaos-timed: build prometheus page-tools ## assert how soon faults are found and named, and what they cost; 8 minutes; ENGINE
	SIDESTEP_ENGINE=$(ENGINE) SIDESTEP_ENGINE_VERSION=$(ENGINE_VERSION) $(GO) test -count=1 -v -timeout 60m ./test/chaos -timed

.PHONY: chaos-table
chaos-table: build ## measure degraded nodes of a real cluster, 50 minutes; ENGINE, CHAOS='-scenarios a,b …'
	$(GO) build -trimpath -o bin/chaos ./test/chaos/table
	bin/chaos $(MEASURED) $(CHAOS)

FULL ?=

.PHONY: chaos-full
chaos-full: build ## measure a healthy cluster, full and half full, by the nodes that searches go through, 22 minutes; ENGINE, FULL='-settings quota …'
	$(GO) build -trimpath -o bin/full ./test/chaos/full
	bin/full $(MEASURED) $(FULL)

TOUR ?=

.PHONY: tour
tour: build prometheus page-tools ## degrade nodes of a real cluster and see that everything names node and cause, 6 minutes; ENGINE, TOUR='-keep …'
	$(GO) build -trimpath -o bin/tour ./test/chaos/tour
	bin/tour $(MEASURED) $(TOUR)

.PHONY: calm
calm: build ## do nothing to a real cluster under load for five minutes: no trouble may be recorded
	$(GO) build -trimpath -o bin/tour ./test/chaos/tour
	bin/tour $(MEASURED) -calm 5m -rate 30 $(TOUR)

COUNT ?= 20000
SEED  ?= 1

.PHONY: differential
differential: build ## compare answers through sidestep with the engine's own, 25 minutes; ENGINE, COUNT, SEED
	$(GO) run ./test/differential $(MEASURED) -count $(COUNT) -seed $(SEED)

.PHONY: test-bulk-kill
test-bulk-kill: build ## write bulks that are repeated while connections and nodes are killed, on a real cluster; 5 minutes; ENGINE
	$(GO) run ./test/bulkkill $(MEASURED)

BULKS ?= 2000

.PHONY: differential-bulk
differential-bulk: build ## compare bulks alone that are kept on one shard, 5 minutes; ENGINE, BULKS, SEED
	$(GO) run ./test/differential $(MEASURED) -count 0 -churn 0 -bulks $(BULKS) -seed $(SEED)

.PHONY: cluster-up
cluster-up: bin/cluster ## start a real cluster in the background; ENGINE, ENGINE_VERSION, NODES
	bin/cluster up $(MEASURED) -nodes $(NODES)

.PHONY: cluster-down
cluster-down: bin/cluster ## stop it
	bin/cluster down

.PHONY: bin/cluster
bin/cluster:
	$(GO) build -o $@ ./test/harness/cmd/cluster

.PHONY: clean
clean: ## remove what was built (bin, dist, .cache)
	rm -rf bin dist .cache
