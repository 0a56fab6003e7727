# Every target sets up what it needs from the lock file and is quick when nothing changed.
SHELL := /bin/bash
export NO_MKDOCS_2_WARNING := 1
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
STAMPS := .make
ENV := $(STAMPS)/env
RUN_ENV := $(STAMPS)/run-env
# Who only runs BigFleet need not wait for the tools of its developers; who has them has all that is needed.
TO_RUN := $(if $(wildcard $(ENV)),$(ENV),$(RUN_ENV))

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "make: Python 3.11 or newer is needed, $(PYTHON) is $$($(PYTHON) --version 2>&1); set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "make: $(PYTHON) cannot make a virtual environment; on Debian install python3-venv" >&2; exit 1; }

# Bytecode is written when a module is first used: most of what is installed never is.
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check --no-compile
LOCKED := $(INSTALL) --require-hashes
EDITABLE := $(INSTALL) --no-deps --no-build-isolation -e .

$(ENV): requirements-dev.lock pyproject.toml | $(PY)
	$(LOCKED) -r requirements-dev.lock
	$(EDITABLE)
	@mkdir -p $(STAMPS) && touch $@

$(RUN_ENV): requirements.lock requirements-build.lock pyproject.toml | $(PY)
	$(LOCKED) -r requirements.lock -r requirements-build.lock
	$(EDITABLE)
	@mkdir -p $(STAMPS) && touch $@

.PHONY: env
env: $(ENV) ## virtual environment with the locked dependencies

.PHONY: run
run: $(TO_RUN) ## a small fleet with dashboard on this machine, until Ctrl-C
	@$(BIN)/bigfleet all-in-one $(ARGS)

.PHONY: fleet
fleet: $(TO_RUN) ## the fleet of deploy/compose as processes on this machine, until Ctrl-C (Linux); TLS=1 with certificates
	@$(PY) deploy/compose/fleet.py $(if $(TLS),--tls --data $(STAMPS)/fleet-tls)

# Half as many workers again as there are cores: many a test waits for a process rather than computing.
WORKERS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((cores < 4 ? (cores * 3 + 1) / 2 : 6)))
SIDE_BY_SIDE := -n $(WORKERS) --dist worksteal

.PHONY: test test-fast test-long
test: $(ENV) ## the whole suite; what needs the test control plane only where make testbed has built it
	$(PY) -m pytest -m "not long" $(SIDE_BY_SIDE)

test-fast: $(ENV) ## what needs neither sockets nor processes, in under four minutes
	$(PY) -m pytest -m "not long and not integration" $(SIDE_BY_SIDE)

test-long: $(ENV) ## long properties and fault rounds
	$(PY) -m pytest -m long $(SIDE_BY_SIDE)

.PHONY: attack
attack: $(ENV) ## attacks on running processes, as make test makes them; LONG=1 makes the long rounds too
	$(PY) -m pytest $(if $(LONG),,-m "not long") tests/attack

# Where the lock has a fuzzer for this machine and it can be installed, fuzzing follows coverage.
FUZZ_ENV := $(STAMPS)/fuzz-env
$(FUZZ_ENV): requirements-fuzz.lock $(ENV)
	@$(LOCKED) --no-deps --only-binary :all: -r $< \
	  || echo "make: atheris cannot be installed on this machine, so fuzzing does not follow coverage" >&2
	@touch $@

MINUTES ?= 1
JOBS ?= 1
.PHONY: fuzz
fuzz: $(FUZZ_ENV) ## feed changed bytes to every parser for MINUTES (1) of CPU time each, JOBS (1) at once; ARGS="--target yaml --evidence FILE"
	@$(PY) -m tests.fuzz --minutes $(MINUTES) --jobs $(JOBS) $(ARGS)

.PHONY: testbed e2e
testbed: $(ENV) ## build the test control plane and Helm into the user's cache (about 16 CPU minutes, once)
	@$(PY) -m tests.support.control_plane.build tests/testbed
	@$(PY) -m tests.support.control_plane.tools tests/testbed

e2e: testbed ## tests against a real control plane
	$(PY) -m pytest -m "control_plane and not long" tests/e2e $(SIDE_BY_SIDE)

.PHONY: check lint types imports seams proto-check crds crds-check charts charts-check charts-test docs-check image-check shell-check
check: lint types imports seams proto-check crds-check charts-check docs-check image-check shell-check ## ruff, mypy strict, import contracts, seams, generated-code drift, buf, charts, docs, image, shell

lint: $(ENV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(ENV)
	$(BIN)/mypy

imports: $(ENV)
	$(BIN)/lint-imports --no-cache

seams: $(ENV)
	$(PY) -m tests.architecture.seams

.PHONY: proto
proto: $(ENV) ## generate the stubs from proto/ and take additions into the image
	$(PY) proto/generate.py
	$(BIN)/buf breaking proto --against proto/image.binpb
	$(BIN)/buf build proto --exclude-source-info -o proto/image.binpb

proto-check: $(ENV)
	$(PY) proto/generate.py --check
	$(BIN)/buf lint proto
	$(BIN)/buf format proto --diff --exit-code
	$(BIN)/buf breaking proto --against proto/image.binpb
	$(BIN)/buf breaking proto/image.binpb --against proto --config proto/buf.yaml

crds: $(ENV) ## generate the CRD chart and the field tables of docs/crds.md
	$(PY) -m bigfleet.kube.crds.generate

crds-check: $(ENV)
	$(PY) -m bigfleet.kube.crds.generate --check

charts: $(ENV) ## generate what is made of the charts: values, schemas, tables, roles, boards, copies
	$(PY) -m charts.generate

charts-check: $(ENV)
	$(PY) -m charts.generate --check

charts-test: $(ENV) ## render, lint, dry-run and install the charts, and try every alert; needs make testbed
	$(PY) -m pytest -m "not long" $(SIDE_BY_SIDE) tests/charts tests/e2e/charts

# Both linters come as wheels; on a machine for which there is none this says so and goes on, except in CI.
linter = if [ -x $(BIN)/$(1) ]; then $(BIN)/$(1) $(2); else echo "make: no $(1) for this machine, so $(3) not looked at" >&2; test -z "$${CI:-}"; fi

image-check: $(ENV)
	@$(call linter,hadolint,--failure-threshold style deploy/image/Dockerfile,the Dockerfile is)

shell-check: $(ENV)
	@$(call linter,shellcheck,--external-sources --source-path=SCRIPTDIR $$(grep -lE '^#!(/usr/bin/env bash|/bin/sh)$$' .ci/* deploy/kind/* bigfleet/provider/hook/sets/*/*),shell scripts are)

.PHONY: docs
docs: $(ENV) ## generate the reference pages and build the site strictly into site/
	$(PY) -m docs.generate
	$(BIN)/mkdocs build --strict --quiet

docs-check: $(ENV)
	$(PY) -m docs.generate --check
	$(BIN)/mkdocs build --strict --quiet --site-dir $(STAMPS)/site

.PHONY: release release-check
release: release-check ## wheel, sdist, charts, bill of materials and checksums of this commit, in dist/; TAG=vX.Y.Z checks the tag
	@rm -rf dist
	$(PY) -m deploy.release build --out dist --tag "$(TAG)"

release-check: $(ENV) ## name everything that speaks against a release
	$(PY) -m deploy.release check --tag "$(TAG)"
	$(PY) proto/generate.py --check
	$(PY) -m bigfleet.kube.crds.generate --check
	$(PY) -m charts.generate --check
	$(PY) -m docs.generate --check

.PHONY: manifests conformance-self
manifests: $(ENV) ## render the charts for people without Helm into deploy/release/manifests; needs make testbed
	$(PY) -m deploy.release manifests

OUT ?= conformance
conformance-self: $(ENV) ## let the conformance kit certify our own providers, reports in OUT (about five minutes)
	$(PY) -m deploy.release conformance --out "$(OUT)"

.PHONY: image
image: ## build the container image (needs docker or podman); BASES="--build-arg BUILD_BASE=…" pins its bases
	@engine=$$(command -v docker || command -v podman) \
	  || { echo "make: no container engine; install docker or podman. The same recipe without one: .ci/image" >&2; exit 1; }; \
	$$engine build --file deploy/image/Dockerfile --tag bigfleet:local \
	  --build-arg REVISION=$$(git rev-parse HEAD) --build-arg VERSION=$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' bigfleet/version.py) $(BASES) .

.PHONY: bench
bench: $(ENV) ## figures as ratios; fails when a bar that must be met is missed
	$(PY) -m scaletest.bench

.PHONY: format
format: $(ENV) ## let ruff rewrite what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: lock
lock: $(ENV) ## resolve the dependencies again into the four hashed lock files (needs uv on the PATH)
	uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
	  --custom-compile-command "make lock" --quiet --upgrade --output-file requirements-dev.lock
	uv pip compile pyproject.toml --constraint requirements-dev.lock --universal --python-version 3.11 --generate-hashes \
	  --custom-compile-command "make lock" --quiet --output-file requirements.lock
	uv pip compile --group build --constraint requirements-dev.lock --universal --python-version 3.11 --generate-hashes \
	  --custom-compile-command "make lock" --quiet --output-file requirements-build.lock
	uv pip compile --group fuzz --constraint requirements-dev.lock --universal --python-version 3.11 --generate-hashes \
	  --custom-compile-command "make lock" --quiet --output-file requirements-fuzz.lock

.PHONY: clean
clean: ## remove everything that make made
	rm -rf $(VENV) $(STAMPS) build conformance dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
