# One verb for each thing a developer does. The environment is made on first use and kept in .venv; stamps in it make
# every later call quick. A second environment holds the published binding, which has the same import name as ours.

PYTHON ?= python3
JOBS ?= 2
PYTEST_ARGS ?=

VENV := .venv
PEER := .venv-peer
PY := $(VENV)/bin/python
STAMP := $(VENV)/.stamp
PIP_FLAGS := --quiet --disable-pip-version-check

export HURRAY_PEER_PYTHON := $(abspath $(PEER)/bin/python)
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test check lint types layers bench docs fmt cover clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    convert a real model file, read it lazily, verify it, convert it back (INPUT=path for your own)"
	@echo "make test    the test suite"
	@echo "make check   lint, types, layers and the test suite: what has to pass before a change lands"
	@echo "make bench   side-by-side benchmarks"
	@echo "make docs    the API reference, into build/docs"
	@echo "make fmt     format the code and mend what the linter can"
	@echo "make cover   the test suite with branch coverage"

$(STAMP)-venv:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(STAMP)-dev: $(STAMP)-venv pyproject.toml
	$(PY) -m pip install $(PIP_FLAGS) -e '.[dev]'
	@touch $@

# torch and the peer are optional: without them their tests skip.
$(STAMP)-torch: $(STAMP)-dev
	$(PY) -m pip install $(PIP_FLAGS) 'torch==2.13.0' || echo "torch could not be installed; its tests are skipped"
	$(PY) -m pip install $(PIP_FLAGS) --no-deps bitsandbytes compressed-tensors && \
		$(PY) -m pip install $(PIP_FLAGS) loguru psutil pydantic transformers || \
		echo "bitsandbytes and compressed-tensors could not be installed; their tests are skipped"
	@touch $@

$(PEER)/.stamp:
	$(PYTHON) -m venv $(PEER)
	$(PEER)/bin/python -m pip install $(PIP_FLAGS) 'pyhurray==0.1.0' numpy ml_dtypes \
		|| echo "the published binding could not be installed; its tests are skipped"
	@touch $@

demo: $(STAMP)-dev
	$(PY) examples/demo.py $(if $(INPUT),"$(INPUT)")

test: $(STAMP)-dev $(PEER)/.stamp
	$(PY) -m pytest -q -n $(JOBS) --dist worksteal $(PYTEST_ARGS)

lint: $(STAMP)-dev
	$(VENV)/bin/ruff check --quiet .
	$(VENV)/bin/ruff format --quiet --check .

types: $(STAMP)-dev
	$(VENV)/bin/mypy

layers: $(STAMP)-dev
	$(VENV)/bin/lint-imports --no-cache

# The check also tries many more hostile index buffers than a quick run of the tests.
check: export HURRAY_FUZZ_INDEX_CASES := 100000
check: $(STAMP)-torch lint types layers test

# The peers of the benchmarks; one that cannot be installed is left out of the tables.
$(STAMP)-bench: $(STAMP)-torch
	for peer in h5py zarr tensorstore pymorton numpy-hilbert-curve hilbertcurve; do \
		$(PY) -m pip install $(PIP_FLAGS) $$peer || echo "$$peer could not be installed"; done
	@touch $@

bench: $(STAMP)-bench $(PEER)/.stamp
	$(PY) -m benchmarks $(BENCH_ARGS)

docs: $(STAMP)-dev
	$(PY) -m pytest -q tests/docs
	$(VENV)/bin/pdoc --docformat numpy --output-directory build/docs hurray

fmt: $(STAMP)-dev
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

cover: $(STAMP)-dev
	$(PY) -m coverage erase
	$(PY) -m coverage run -m pytest -q $(PYTEST_ARGS)
	$(PY) -m coverage combine --quiet
	$(PY) -m coverage report

clean:
	rm -rf $(VENV) $(PEER) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage
