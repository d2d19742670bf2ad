# Thin on purpose: every target calls a program in TypeScript. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
RUN := node tools/run.mjs

.PHONY: help deps build generate lint format types unit verify test cases integration nodes chaos mutants chaos-real test-formats test-retain bench cluster cluster-down doctor try demo docs clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 18

node_modules/.package-lock.json: package-lock.json
	npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

deps: node_modules/.package-lock.json ## Install the packages of the lock file (only when it changed)

build: deps ## Bundle Harbinger into the one executable .out/harbinger.mjs
	@$(RUN) tools/bundle.ts

generate: deps ## Write all generated files: CRDs, manifests, chart, reference pages
	@$(RUN) tools/generate.ts

lint: deps ## eslint, prettier, import directions, house rules
	@$(RUN) tools/verify.ts lint

format: deps ## Format all TypeScript
	@node_modules/.bin/prettier --write --log-level warn '{src,test,tools,demo}/**/*.ts'

types: deps ## Type check
	@$(RUN) tools/verify.ts types

unit: build ## Unit tests (seconds, nothing but Node)
	@$(RUN) tools/test.ts unit

integration: build ## Tests against a real API server, scheduler and Kueue (needs Go)
	@$(RUN) tools/test.ts integration

nodes: build ## Tests against real kubelets and containerd (needs Go and root on Linux)
	@$(RUN) tools/test.ts nodes

chaos: build ## Random faults on a simulated cluster, checked by invariants; SEEDS=n (200), SEED=k to see one again
	@$(RUN) tools/chaos.ts --seeds "$(SEEDS)" --seed "$(SEED)"

mutants: deps ## Is each committed defect caught by the test that it names? ONLY=name picks one
	@$(RUN) tools/mutants.ts $(ONLY)

chaos-real: build ## Random faults on real processes, checked by invariants; SEEDS=5 or SEEDS=7,8 (needs Go)
	@CHAOS_SEEDS=$(SEEDS) $(RUN) tools/test.ts chaos-real

test-retain: build ## Images held through the garbage collection of real kubelets, which runs every five minutes (needs Go and root on Linux)
	@NODE_OPTIONS='--experimental-vm-modules --no-warnings' node_modules/.bin/jest --selectProjects retain --runInBand

test-formats: build ## Images of real converters on nodes that load them lazily; builds Nydus (needs Go, cargo, root; 15 min once)
	@$(RUN) tools/test.ts formats

verify: build ## What has to pass before a push: generated files, lint, types, unit
	@$(RUN) tools/verify.ts all

test: build ## All tests but chaos-real and test-retain; the last line is the sum
	@$(RUN) tools/test.ts

cases: deps ## Does every required case stand in one test that passed in the last run?
	@$(RUN) tools/cases-check.ts

bench: build ## Measure; ONLY=webhook, footprint or controller picks one, NODES=5000 for the last (needs Go)
	@$(RUN) tools/bench.ts $(ONLY)

doctor: deps ## What this machine can run, and what to do about the rest
	@$(RUN) test/cluster/cli.ts doctor

cluster: build ## Start a cluster for use by hand (NODES=real|fake, COUNT=3, NAME=hand)
	@$(RUN) test/cluster/cli.ts up

cluster-down: deps ## Stop that cluster
	@$(RUN) test/cluster/cli.ts down

try: build ## A first look without Go or root: explain what happens to the example images
	@$(RUN) tools/try.ts

demo: build ## Show the whole loop on real parts (NODES=real|fake, KEEP=1 leaves the cluster up)
	@$(RUN) demo/main.ts

docs: deps ## Put the outputs and the picture of the last demo into the pages
	@$(RUN) tools/docs-outputs.ts

clean: ## Remove build output (the cache of built tools stays)
	rm -rf .out
