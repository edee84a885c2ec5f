# Needs Python 3.11 or later and make; everything else goes into .venv.

PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# A short run that still meets every kind of fault.
CHAOS_ARGS ?= --jobs 40 --workers 3

# Tests wait for servers more than they compute, so two files run at a time. One that fails is tried
# once more and listed: a busy machine may take a lease from a worker that lives.
PYTEST := $(BIN)/python -m pytest -q --numprocesses 2 --dist loadfile --reruns 1

# Lines a file may have: what is longer is two files.
PRODUCT_LINES := 300
TEST_LINES := 500

# Tests start hundreds of processes, and each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test tools test-all chaos check lengths lock bench clean

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## set up, and watch a job survive the loss of its worker
	@$(BIN)/python -m tasks.local.demo

test: $(READY) ## run the tests
	@$(PYTEST)

test-all: $(READY) ## run the tests, the slow ones included
	@$(PYTEST) -m "not benchmark"

tools: ## install nginx and Chromium for the tests that need them, where apt-get can
	@{ command -v nginx && command -v chromium-headless-shell; } >/dev/null || \
	  { apt-get update && apt-get install --yes --no-install-recommends \
	    nginx-light chromium-headless-shell fonts-dejavu-core; } >/dev/null 2>&1 || \
	  echo "tools: not installed; the tests that need them are skipped, and say so"

chaos: $(READY) ## break everything on purpose for a minute; CHAOS_ARGS="--jobs 1000" for longer
	@$(BIN)/python -m tasks.cli chaos $(CHAOS_ARGS)

check: $(READY) lengths ## check format, lint, types, import contracts and file lengths
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

lock: $(READY) ## renew worker/requirements.lock; delete it first to refresh every pin
	@UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile --quiet --no-config --universal \
	  --python-version 3.11 --generate-hashes --no-annotate --group build \
	  --extra gateway --extra metrics --extra tracing pyproject.toml \
	  --output-file worker/requirements.lock

bench: $(VENV)/.bench ## run every benchmark; ARGS=--quick for a first look
	@set -e; for program in tests/benchmarks/[a-z]*.py; do \
	  echo "== $$program"; $(BIN)/python $$program $(ARGS); done

# Kept out of the other targets: a test needs nobody to compare with.
$(VENV)/.bench: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	@touch $@

clean: ## remove everything that can be made again
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

lengths:
	@find settings worker tasks -type f \( -name '*.py' -o -name '*.lua' \) -exec awk \
	  'FNR == $(PRODUCT_LINES) + 1 { print FILENAME ": more than $(PRODUCT_LINES) lines"; bad = 1 } \
	  END { exit bad }' {} +
	@find tests -type f -name '*.py' -exec awk \
	  'FNR == $(TEST_LINES) + 1 { print FILENAME ": more than $(TEST_LINES) lines"; bad = 1 } \
	  END { exit bad }' {} +

# The stamp is gone while an installation runs. So one that was interrupted starts from nothing,
# and one that is only out of date is brought up to date in place.
$(READY): pyproject.toml
	@$(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: needs Python 3.11 or later: make PYTHON=/path/to/it" >&2; exit 1; }
	@test -e $@ || { echo "Setting up $(VENV)"; $(PYTHON) -m venv --clear $(VENV); }
	@rm -f $@
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
