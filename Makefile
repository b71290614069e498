# Two commands on a machine with python3 and make: `make run` and `make test`. `make help` lists the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
FORM := $(BIN)/check-jsonschema --quiet --builtin-schema vendor.

# Tests begin some hundred Python programs; without its bytecode each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install run test test-slow thorough coverage lint types layers docs package release-rehearsal bench bench-e2e fuzz simulate stress e2e image cluster clean

help: ## what can be made
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

# A pip newer than Python 3.11's own takes half as long (and 26 warns of every editable installation); of what it would
# compile three quarters are never imported, and the rest is when it first is.
install: $(STAMP) ## a virtual environment in .venv with everything

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "tallygate needs Python 3.11 or newer; $$($(PYTHON) --version) is called $(PYTHON). Name another: make PYTHON=python3.12 …" >&2; exit 2; }
	@echo "Installing into $(VENV) (once; about a minute) …"
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "Python's venv module is missing here; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }
	@$(PIP) 'pip>=25.1,<26'
	@$(PIP) --no-compile --editable '.[test,lint,docs,e2e]'
	@touch $(STAMP)

run: install ## the gate on https://127.0.0.1:8443 with the shipped policies, three pods put through it, and the pages
	@exec $(BIN)/python -m tallygate.cli.demo

test: install ## the tests that a change needs at once (two minutes and a half on two cores)
	@$(BIN)/python -m pytest --numprocesses 2 -m 'not slow'

test-slow: install ## the other tests: simulations, models, real servers and programs (tests/slow.py)
	@$(BIN)/python -m pytest --numprocesses 3 -m slow

thorough: install ## the test suite with thirty times as many examples of what must always hold (some ten minutes)
	@$(BIN)/python -m pytest --numprocesses 2 --hypothesis-profile thorough

coverage: install ## the test suite again, and which lines it runs
	@$(BIN)/python -m pytest --numprocesses 2 --cov --cov-report term

lint: install ## ruff, all rules; and the files for GitHub, by its schemas
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(FORM)github-actions .github/actions/*/action.yml
	@$(FORM)github-workflows .github/workflows/*.yml
	@$(FORM)dependabot .github/dependabot.yml
	@$(FORM)github-issue-config .github/ISSUE_TEMPLATE/config.yml
	@$(FORM)github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))

types: install ## mypy, strict; and whether a reader that runs nothing finds every import
	@$(BIN)/basedpyright --level error
	@$(BIN)/mypy
	@$(BIN)/mypy docs/site

layers: install ## who may import whom
	@$(BIN)/lint-imports

docs: install ## the documents as a site in build/site, strictly
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --config-file docs/site/mkdocs.yml
	@echo 'build/site/index.html'

package: install ## wheel and sdist in dist/, checked, and tried in clean environments of every Python on PATH
	@$(PIP) --group package
	@$(BIN)/python -m tests.package

release-rehearsal: package ## a release in dist/rehearsal: made, signed, verified, installed; nothing is published (needs Go, root)
	@$(BIN)/python -m tests.release rehearsal

bench: install ## figures beside what one would use instead (needs wrk)
	@$(BIN)/python -m tests.bench

bench-e2e: install ## what a webhook adds to the creation of a pod, through a real API server (needs Go; minutes)
	@$(BIN)/python -m e2e.bench

fuzz: install ## hostile bytes for a bounded time: make fuzz SECONDS=300
	@$(PIP) --editable '.[fuzz]'
	@$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60)

simulate: install ## the rules of ledgers and their callers under new schedules: make simulate SECONDS=600
	@$(BIN)/python -m tests.gate.simulation walk --seconds $(or $(SECONDS),60) --first $(or $(FIRST),0)

stress: install ## caps under loads of pods and faults, on a real control plane (needs Go; minutes)
	@$(BIN)/python -m e2e.stress

e2e: install ## the tests against a real control plane, built once (needs Go); KUBERNETES=1.36.3 or PROVIDER=kind (docs/design/e2e.md)
	@$(if $(filter-out local,$(PROVIDER)),:,$(BIN)/python -m e2e.local.build)
	@$(BIN)/python -m pytest e2e $(if $(PROVIDER),--provider=$(PROVIDER)) $(if $(filter existing,$(PROVIDER)),$(ON_EXISTING)) \
	  $(if $(filter-out local,$(PROVIDER)),,--numprocesses 4 --dist loadfile --no-loadscope-reorder)

ON_EXISTING = $(if $(KUBECONFIG),--kubeconfig='$(KUBECONFIG)') $(if $(CONTEXT),--context='$(CONTEXT)') \
  $(if $(IMAGE),--image='$(IMAGE)') $(if $(GATE_HOST),--host='$(GATE_HOST)')

image: install ## the image of deploy/Dockerfile: make image IMAGE=tallygate:latest BASE=python:3.13-slim (needs docker)
	@$(BIN)/python -m e2e.image --tag='$(or $(IMAGE),tallygate:latest)' $(if $(BASE),--base='$(BASE)')

cluster: install ## a development cluster: control plane and three nodes with things to count, until Ctrl-C (needs Go)
	@exec $(BIN)/python -m e2e.dev_cluster

clean: ## remove everything that make has created
	@rm -rf $(VENV) .run build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
