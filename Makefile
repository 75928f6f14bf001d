# Thermocline: `make help` lists what there is. Every target sets up what it needs, in .venv, once.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
# The first Python on the PATH that is new enough; override with `make PYTHON=/path/to/python3 ...`.
PYTHON ?= $(shell sh scripts/find-python.sh)
# The caller's Python settings must not leak into our environment.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE VIRTUAL_ENV SPARK_HOME PYSPARK_SUBMIT_ARGS
# pip: pinned and hashed packages only, built with the pinned setuptools only.
PIP_INSTALL := $(BIN)/python -m pip --disable-pip-version-check --no-input install --no-build-isolation --require-hashes
# Tests wait for servers more than they compute: three at once, on whatever machine.
AT_ONCE := --numprocesses 3 --dist worksteal
# On the older PostgreSQL the core is tested, and of the rest one test in so many, others each time. ONE_IN=1: all of it.
ONE_IN ?= 4
STEP = @printf '\033[1m==> %s\033[0m\n'

.PHONY: help demo test test-fast lint docs bench reference promises lock clean setup setup-dev

help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## see the product at work: PostgreSQL, Spark and an Iceberg lake on this machine
	@$(BIN)/thermocline demo

test: setup-dev lint docs ## everything that must hold: lint, types, docs, tests on PostgreSQL 18, SQL tests on 16
	$(STEP) 'Tests on PostgreSQL 18'
	@$(BIN)/python -m pytest $(AT_ONCE) $(PYTEST_ARGS)
	$(STEP) 'SQL tests again on PostgreSQL 16'
	@$(BIN)/python -m pytest $(AT_ONCE) -m sql --postgres 16 --one-in $(ONE_IN) $(PYTEST_ARGS)

test-fast: setup-dev ## tests without Spark and without the slow ones
	@$(BIN)/python -m pytest -m 'not spark and not slow' $(PYTEST_ARGS)

lint: setup-dev ## ruff, mypy --strict, import rules
	$(STEP) 'Lint, types, import rules'
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

docs: setup-dev ## build the documentation, strictly, into site/
	$(STEP) 'Documentation'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

bench: setup-dev ## measure; NAME=stack for one, all otherwise
	@$(BIN)/python -m benchmarks $(NAME)

reference: setup-dev ## write the generated reference pages anew
	@$(BIN)/python scripts/reference.py

promises: setup-dev ## which promise is held by which test
	@$(BIN)/python scripts/promises.py

lock: setup-dev ## resolve the dependencies anew into requirements/*.lock
	@sh scripts/lock.sh

clean: ## remove the environment and everything built
	@rm -rf $(VENV) site build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@rm -rf src/*.egg-info

setup: $(VENV)/.package ## only set up what the product needs
setup-dev: $(VENV)/.dev

$(VENV)/.created: requirements/bootstrap.lock scripts/find-python.sh
	@[ -n "$(PYTHON)" ] || { sh scripts/find-python.sh --explain; exit 4; }
	$(STEP) 'Python environment in $(VENV)'
	@rm -rf $(VENV)
	@"$(PYTHON)" -m venv $(VENV) || { sh scripts/find-python.sh --explain-venv; exit 4; }
	@$(PIP_INSTALL) --quiet -r requirements/bootstrap.lock
	@touch $@

$(VENV)/.runtime: $(VENV)/.created requirements/runtime.lock
	$(STEP) 'Packages (about 550 MB the first time: Spark, PostgreSQL, Java)'
	@$(PIP_INSTALL) -r requirements/runtime.lock
	@touch $@

$(VENV)/.package: $(VENV)/.runtime pyproject.toml
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet --no-build-isolation --no-deps -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.package requirements/dev.lock
	$(STEP) 'Packages for development'
	@$(PIP_INSTALL) -r requirements/dev.lock
	@touch $@
