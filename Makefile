# `make` without arguments lists the targets. They need python3 and a package index, and install packages into .venv. The
# targets that use a control plane also need go and kubectl.

PYTHON ?= python3
BIN := .venv/bin
FILE ?= tests/parity/classic.jsonl.gz tests/parity/fair.jsonl.gz
FILES ?= examples/demo/*.yaml
ARGS ?=
WORLD ?= small

# Always write byte code, so that later runs start faster.
export PYTHONDONTWRITEBYTECODE=
export PIP_DISABLE_PIP_VERSION_CHECK=1

.DEFAULT_GOAL := help
.PHONY: help venv fmt lint types arch test slow machine parity facts bench bench-engine bench-store bench-machine bench-cli bench-page \
	bench-rivals bench-provisioning control-plane e2e crash crash-short crash-short-embedded crash-short-attempts \
	crash-short-cluster mutants race race-quick browser page page-dev screenshots demo picture docs pages cli-docs config-docs \
	metrics-docs chart changelog simulate rewrite check pins audit clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: .venv/.stamp ## create .venv from requirements/dev.txt; repeated only if that file or pyproject.toml changes

.venv/.stamp: requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

fmt: .venv/.stamp ## format the code and apply safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: .venv/.stamp ## run ruff: lint rules, then formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.stamp ## run mypy --strict on src, tests and bench
	$(BIN)/mypy

arch: .venv/.stamp ## run import-linter: layers, and no side effects in pure packages
	$(BIN)/lint-imports

test: .venv/.stamp ## run all tests, the stories on the embedded system, in three processes (options in ARGS=)
	$(BIN)/python -m pytest -q -n 3 -m "not slow" tests $(ARGS)

slow: .venv/.stamp ## run the tests that wait for deadlines and grace periods, which `make test` skips
	$(BIN)/python -m pytest -q -n 2 -m slow tests $(ARGS)

machine: .venv/.stamp ## run the Hypothesis state machines with many examples
	PYKUEUE_HYPOTHESIS=long $(BIN)/python -m pytest -q tests/machine $(ARGS)

parity: .venv/.stamp ## replay recorded decisions of Kueue (FILE=x.jsonl.gz for another recording)
	for file in $(FILE); do $(BIN)/python -m tests.parity.replay $$file || exit 1; done

facts: .venv/.stamp ## list the facts of the specification with their stories, and the modules with their tests
	$(BIN)/python -m tests.facts
	$(BIN)/python -m tests.moduletests

bench: bench-engine bench-store bench-machine bench-cli bench-page bench-rivals bench-provisioning ## run all benchmarks against their floors, and compared with Kueue

bench-engine: .venv/.stamp
	$(BIN)/python -m bench
bench-store: .venv/.stamp
	$(BIN)/python -m bench.store
bench-machine: .venv/.stamp
	$(BIN)/python -m bench.machine
bench-cli: .venv/.stamp
	$(BIN)/python -m bench.cli
bench-page: .venv/.stamp browser
	$(BIN)/python -m bench.page
	$(BIN)/python -m bench.viewers
bench-rivals: .venv/.stamp
	$(BIN)/python -m bench.rivals
bench-provisioning: .venv/.stamp control-plane
	$(BIN)/python -m bench.provisioning

control-plane: ## build a real Kubernetes control plane, Kueue, kueuectl and helm from their Go modules, once (outside the tree)
	controlplane/build kueuectl
	controlplane/build helm

e2e: .venv/.stamp control-plane ## run the stories and the recorded API calls on a real control plane (options in ARGS=)
	PYKUEUE_E2E_BACKEND=plane $(BIN)/python -m pytest -q -n 4 --dist loadgroup tests/e2e tests/conformance $(ARGS)

crash: .venv/.stamp control-plane ## inject crashes, network cuts and conflicts under load, watched by the auditor (about 50 minutes)
	$(BIN)/python -m tests.crash.embedded
	$(BIN)/python -m tests.crash.embedded --kept 100000 --kills 5
	$(BIN)/python -m tests.crash.attempts
	$(BIN)/python -m bench.machine neighbours
	$(BIN)/python -m tests.crash $(ARGS)
	$(BIN)/python -m tests.crash --fair --kills 40 $(ARGS)

# Faults that take more than half a minute.
LONG_FAULTS = slow-apiserver,slow-webhooks,stall-watches,step-clock,skew-clocks,restore-etcd,expire-certificates

crash-short: crash-short-embedded crash-short-attempts crash-short-cluster ## run a short version of `make crash`, under ten minutes

crash-short-embedded: .venv/.stamp
	$(BIN)/python -m tests.crash.embedded --kills 15
crash-short-attempts: .venv/.stamp control-plane
	$(BIN)/python -m tests.crash.attempts --stories failed-first --when before --stride 3
crash-short-cluster: .venv/.stamp control-plane
	$(BIN)/python -m tests.crash --kills 16 --cut 15 --skip $(LONG_FAULTS) $(ARGS)

mutants: .venv/.stamp ## run the manager with one deliberate fault at a time; the auditor must find each (names in ARGS=)
	$(BIN)/python -m tests.mutants $(ARGS)

race: .venv/.stamp ## run Kueue's own scalability test, compared with Kueue and our floors (an hour)
	$(BIN)/python -m bench.race --keep $(ARGS)

race-quick: .venv/.stamp ## run a tenth of it, three times each, alternating (six minutes)
	$(BIN)/python -m bench.race --shape quick $(ARGS)

browser: ## bring what the tests of the page need: a headless Chromium, and axe-core from npm
	.ci/browser

page: ## build the page of the dashboard into src/pykueue/web/static; commit what it writes
	cd dashboard && npm ci --no-audit --no-fund && npm run format && npm run build

page-dev: .venv/.stamp ## serve the built page with made-up data that changes (WORLD=small, large or hostile)
	$(BIN)/python -m dashboard.dev.server $(WORLD) live

screenshots: .venv/.stamp browser ## take the pictures of the page again, each view in light and dark
	$(BIN)/python -m tests.browser.screenshots docs/images/dashboard

demo: .venv/.stamp ## show two teams sharing this machine for half a minute, with real processes
	@$(BIN)/python -m pykueue demo

picture: .venv/.stamp ## record the pictures of terminals again: the demo, a session of daily work, and one of questions
	@mkdir -p build
	FORCE_COLOR=1 $(BIN)/python -m pykueue demo > build/demo.txt
	$(BIN)/python -m bench.picture '$$ make demo' < build/demo.txt > docs/images/demo.svg
	for name in day why; do \
		$(BIN)/python -m bench.session $$name > build/$$name.txt && \
		$(BIN)/python -m bench.picture < build/$$name.txt > docs/images/$$name.svg || exit 1; \
	done

docs: pages build/docs/.stamp ## build the documentation site into build/site, after writing the generated pages again
	$(BIN)/python -m tests.docsite.links
	$(BIN)/python -m tests.docsite.source build/site-source
	NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build --quiet
	$(BIN)/python -m tests.docsite.loads build/site

# The tools of the site have an environment of their own.
build/docs/.stamp: requirements/docs.txt
	$(PYTHON) -m venv --clear build/docs
	build/docs/bin/python -m pip install --quiet --require-hashes -r requirements/docs.txt
	@touch $@

pages: cli-docs config-docs metrics-docs changelog ## write all generated pages and drawings of docs again
	$(BIN)/python -m tests.docsite.fields > docs/fields.md
	$(BIN)/python -m tests.docsite.events > docs/events.md
	$(BIN)/python -m tests.docsite.drawings
	$(BIN)/python -m pykueue simulate examples/demo --plot docs/images/simulation.svg > /dev/null

chart: .venv/.stamp ## write the templates of the Helm chart in deploy/helm, and the schema of its values, again
	$(BIN)/python -m tests.chart

changelog: .venv/.stamp ## write CHANGELOG.md from changelog.d (ARGS=--release deletes the fragments)
	$(BIN)/python -m tests.changelog $(ARGS)

cli-docs: .venv/.stamp ## write docs/cli.md, the help of all commands, again
	$(BIN)/python -m tests.clidocs > docs/cli.md

config-docs: .venv/.stamp ## write docs/configuration.md, all keys and feature gates, again
	$(BIN)/python -m tests.configdocs > docs/configuration.md

metrics-docs: .venv/.stamp ## write the tables of docs/metrics.md again
	$(BIN)/python -m tests.metricsdocs

simulate: .venv/.stamp ## simulate your own cluster (FILES="a.yaml b.yaml", options in ARGS=)
	$(BIN)/python -m pykueue simulate $(FILES) $(ARGS)

rewrite: .venv/.stamp ## accept the engine's current decisions in the stories; review the diff before you commit it
	$(BIN)/python -m pytest -q tests/scenarios --rewrite $(ARGS)

check: lint types arch test ## run everything that must pass before a push

COMPILE = build/pins/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make pins'

pins: ## resolve requirements/*.in into *.txt again; the smaller ones get the versions of dev.txt
	$(PYTHON) -m venv build/pins
	build/pins/bin/python -m pip install --quiet uv==0.13.7
	$(COMPILE) --upgrade requirements/dev.in --output-file requirements/dev.txt
	$(COMPILE) --constraint requirements/dev.txt requirements/run.in --output-file requirements/run.txt
	$(COMPILE) --constraint requirements/dev.txt requirements/build.in --output-file requirements/build.txt
	$(COMPILE) --upgrade requirements/docs.in --output-file requirements/docs.txt

audit: ## look for known vulnerabilities in what we install (asks PyPI, so it is not part of `make check`)
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet pip-audit==2.10.1
	build/audit/bin/pip-audit --require-hashes --disable-pip -r requirements/dev.txt -r requirements/docs.txt

clean: ## remove all build outputs, including .venv
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
