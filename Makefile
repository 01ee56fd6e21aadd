# The only list of commands. Everything runs on the Node that package.json pins; the system's Node only installs it.
SHELL := /bin/bash
.SHELLFLAGS := --norc -eu -o pipefail -c
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
# Where the pinned Node keeps its headers: native modules are built against them, without a download.
export npm_config_nodedir = $(CURDIR)/node_modules/node/node_modules/node-$(shell uname -s | tr A-Z a-z)-$(subst aarch64,arm64,$(subst x86_64,x64,$(shell uname -m)))
TSC := node node_modules/@typescript/native/bin/tsc
VITEST := node node_modules/vitest/vitest.mjs run

.PHONY: help install python generate compile embedder serve invite link unlink test check types contract agents mock bench bench-search bench-retrieval chaos ingest soak flake try clients format clean

help: ## Print the targets
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '  make %-15s %s\n' "$$name" "$$text"; done

node_modules/.installed: package.json package-lock.json $(wildcard */package.json clients/*/package.json) Makefile
	@echo 'Installing the packages, once; compiling the driver of SQLite takes a minute.'
	@npm ci --ignore-scripts --loglevel=error
	@# No package may run a script of its own at installation, but for these two: the pinned Node, and SQLite's driver.
	@npm rebuild node --loglevel=error
	@npm_config_build_from_source=true npm rebuild sqlite3 --loglevel=error
	@touch $@

.venv/.installed: contract-tests/requirements.txt
	@python3 -m venv .venv
	@.venv/bin/pip install --quiet --disable-pip-version-check --requirement contract-tests/requirements.txt
	@echo 'Building the language server of Go, which a test starts; once, it takes a minute or two.'
	@PATH="$(CURDIR)/.venv/bin:$$PATH" GOBIN="$(CURDIR)/.venv/bin" GOTOOLCHAIN=local go install golang.org/x/tools/gopls@v0.21.1
	@echo 'Building the S3 server that tests store files in; once, it takes a minute or two.'
	@PATH="$(CURDIR)/.venv/bin:$$PATH" GOBIN="$(CURDIR)/.venv/bin" GOTOOLCHAIN=local go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
	@touch $@

generated.stamp := node_modules/.generated
$(generated.stamp): node_modules/.installed $(shell find openapi schemas codegen -name node_modules -prune -o -type f -print)
	@node codegen/generate.ts
	@touch $@

# Where a source has changed since, the programs run from their sources: what only starts them need not wait for this.
compiled := dist/newest.json
$(compiled): $(generated.stamp) codegen/compile.ts $(shell find server clients \( -name node_modules -o -name dist \) -prune -o -name '*.ts' ! -name '*.test.ts' -print)
	@node codegen/compile.ts

compile: $(compiled) ## Compile the programs, so that they start sooner (they run from their sources otherwise)

install: node_modules/.installed ## Install the packages (each other target does it by itself)

python: .venv/.installed

generate: node_modules/.installed ## Generate all code that follows from the contracts
	@node codegen/generate.ts
	@touch $(generated.stamp)

embedder: $(generated.stamp) ## Put the embedding model on this machine, once: 90 MB are downloaded, 23 MB stay
	@PATH="$(CURDIR)/.venv/bin:$$PATH" node server/maintenance/install-embedder.ts $(ARGS)

# Without the model everything else works: where it cannot be had, that is said once, and `make embedder` tries again.
embedder.stamp := node_modules/.embedder
$(embedder.stamp): server/knowledge/embedded/pinned-model.ts | $(generated.stamp)
	@$(MAKE) --no-print-directory embedder ARGS= || echo 'Without the embedding model, search is full text alone; make embedder tries again.'
	@touch $@

serve: $(generated.stamp) $(embedder.stamp) ## Start the server in the foreground: make serve [ARGS="--port 8090"]
	@exec node server/start.mjs $(ARGS)

invite: $(generated.stamp) ## Print a token that lets one person register
	@node server/maintenance/invite.ts $(ARGS)

# Only from the command line: some systems set variables of these names for purposes of their own.
link unlink: export LINK_NAME = $(if $(filter command line,$(origin NAME)),$(NAME),service)
link unlink: export LINK_PREFIX = $(if $(filter command line,$(origin PREFIX)),$(PREFIX),~/.local)
link: $(compiled) ## Put the command on your PATH: make link [NAME=service] [PREFIX=~/.local]
	@node clients/terminal/link.ts link

unlink: node_modules/.installed ## Take that link away again
	@node clients/terminal/link.ts unlink

check: $(generated.stamp) ## Types, format, lint, import directions, unused code, spec lint
	@$(MAKE) --no-print-directory types
	@biome check --error-on-warnings .
	@redocly lint openapi/openapi.yaml --config codegen/redocly.yaml
	@$(VITEST) --root server architecture
	@knip

workspaces = codegen server clients/typescript clients/terminal contract-tests
types: $(generated.stamp)
	@for folder in $(workspaces); do $(TSC) -p $$folder; done

# The folder of package.json and vitest's settings: the first of the path, but for the clients, each of which has its own.
only.parts = $(subst /, ,$(firstword $(ONLY)))
workspace.of.only = $(firstword $(only.parts))$(if $(filter clients,$(firstword $(only.parts))),$(addprefix /,$(word 2,$(only.parts))))
# Of another one nothing would be run, without a word. What may follow -t is the name of a test, in which such words stand too.
elsewhere.of.only = $(filter-out $(workspace.of.only) $(workspace.of.only)/%,$(filter $(if $(filter -t,$(ONLY)),,$(workspaces)) $(addsuffix /%,$(workspaces)),$(ONLY)))

# Side by side: while the packages come and a driver is compiled on one processor, the other builds what is needed beside them.
.PHONY: ready
ready:
	@$(MAKE) --silent --jobs=2 $(generated.stamp) .venv/.installed $(embedder.stamp) $(if $(ONLY),,$(compiled))

test: ready ## All tests, or one: make test [ONLY=server/store]
ifdef ONLY
	$(if $(elsewhere.of.only),$(error ONLY takes the paths of one workspace, $(workspace.of.only) here; run by itself: $(elsewhere.of.only)))
	@$(VITEST) --root $(workspace.of.only) $(ONLY)
else
	@node contract-tests/test-all.ts
endif

contract: ready ## Check a live server against the contract: mock, fuzzing, journeys, streams, access [ON=postgres: the fuzzer there]
ifeq ($(ON),postgres)
	@FUZZ_ON=postgres $(VITEST) --root contract-tests fuzz
else
	@$(VITEST) --root contract-tests
endif

contract-tests/agents/node_modules/.installed: contract-tests/agents/package.json contract-tests/agents/package-lock.json $(generated.stamp)
	@echo 'Installing the agents, once: some 700 MB.'
	@# Not "ci": it wants the lock to hold every platform of opencode, and not every registry has all of them.
	@npm install --ignore-scripts --no-save --loglevel=error --prefix contract-tests/agents
	@touch $@

agents: contract-tests/agents/node_modules/.installed ## Let Claude Code and opencode mend a file through the server, with their own tools (installs them: 700 MB)
	@$(VITEST) --root contract-tests/agents

mock: $(generated.stamp) ## Start the Prism mock of the API on port 4010
	@prism mock --errors --port 4010 server/contract/openapi.mock.json

bench: $(compiled) $(embedder.stamp) ## What a start, a request, a run, 500 streams, a restart, the Messages surface, searches and ingestion cost [PROFILE=folder: CPU profiles of ingestion]
	@failed=; node clients/terminal/bench.ts || failed=1; node server/bench/bench.ts || failed=1; node server/bench/streams-bench.ts || failed=1; node server/bench/test-restart.ts || failed=1; node server/bench/messages-bench.ts || failed=1; node server/bench/test-search.ts || failed=1; PROFILE='$(if $(filter command line,$(origin PROFILE)),$(PROFILE))' node server/bench/test-ingestion.ts || failed=1; test -z "$$failed"

bench-search: ready ## How searches grow with their corpus, on both engines (hours) [SIZES=1000,100000,1000000] [ENGINES=sqlite,postgresql]
	@node server/bench/test-search.ts "$${SIZES:-1000,100000,1000000}" "$${ENGINES:-sqlite,postgresql}"

bench-retrieval: ready ## How well searches find, on a test collection, on both engines: make bench-retrieval RETRIEVAL_DATA=folder
	@node server/bench/test-retrieval.ts

chaos: $(compiled) ## Kill the server at 200 random moments, and look what was lost (half an hour)
	@CRASH_KILLS=200 $(VITEST) --root server --testTimeout 1800000 crash

ingest: ready ## Take 10,000 files of every format in, and kill the server in the middle [FILES=10000] [ON=postgres]
	@INGEST_FILES='$(if $(filter command line,$(origin FILES)),$(FILES),10000)' INGEST_ON='$(ON)' $(VITEST) --root server crash-many-files

soak: $(generated.stamp) ## Drive one server, or two of them, by random commands beside a model of their runs: make soak [PROPERTY_RUNS=200]
	@PROPERTY_RUNS=$${PROPERTY_RUNS:-200} PROPERTY_COMMANDS=$${PROPERTY_COMMANDS:-25} $(VITEST) --root server state-machine

flake: ready ## Run all tests again and again, or a part: make flake [ONLY=server/store] [TIMES=20]
	@node contract-tests/flake.ts $(or $(TIMES),20) $(ONLY)

# Only from the command line, as for link.
try: export TRY_PROVIDER = $(if $(filter command line,$(origin PROVIDER)),$(PROVIDER))
try: export TRY_MODEL = $(if $(filter command line,$(origin MODEL)),$(MODEL))
try: $(generated.stamp) ## Give a coding task to a real model: OPENAI_API_KEY=… make try PROVIDER=openai [MODEL=…]
	@node contract-tests/coding/try.ts

clients: $(generated.stamp) ## Build the clients for publication: packages in clients/*/dist
	@node clients/typescript/build-package.ts

format: node_modules/.installed ## Format every file
	@biome check --write .

clean: ## Remove all that was installed or generated; data stays
	@rm -rf node_modules */node_modules clients/*/node_modules contract-tests/agents/node_modules .venv server/contract docs/generated clients/*/generated dist clients/*/dist
