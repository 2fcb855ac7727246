# Two commands work on a fresh machine: `make report` and `make test`. Everything is written to ./.venv and ./reports.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Python keeps the bytecode of the package and its tests in __pycache__, also where the environment says otherwise: without it
# each of the many processes of a test run compiles the sources again, and pytest rewrites all assertions again
export PYTHONDONTWRITEBYTECODE :=
# what a target needs: a report and the notebooks, or the developers' tools as well
LAB := $(VENV)/.lab
DEV := $(VENV)/.dev

.PHONY: help setup report quick test test-all fuzz coverage lab docs recordings bpf dist bench lint format clean

help:            ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(LAB): requirements.lock pyproject.toml tools/setup_venv.sh
	@PYTHON="$(PYTHON)" sh tools/setup_venv.sh $(VENV) lab
	-@$(BIN)/wastedcores warmup   # without it things work, too, only slower at first
	@touch $(LAB)

$(DEV): $(LAB)
	@PYTHON="$(PYTHON)" sh tools/setup_venv.sh $(VENV) all,dev
	@touch $(DEV)

setup: $(DEV)    ## make ./.venv with the pinned versions of everything

report: $(LAB)   ## a report on the bundled recordings of the group imbalance bug and its fix
	@$(BIN)/wastedcores report group-imbalance-buggy --against group-imbalance-fixed -o reports/group-imbalance

PYTEST := $(BIN)/python -m pytest
# two processes that get a file at a time, so that what its tests share is made once. Slow tests are dealt out one by one.
MANY := -n 2 --dist loadfile --max-worker-restart 0
# folders most of whose tests start processes, replay workloads or read large files
LATER := adversary browser cli collectors course faults live proofs recordings recovery studies sweep

quick: $(DEV)    ## the tests of one minute or two, while you work
	@$(PYTEST) -q $(MANY) -m "not slow and not live" $(LATER:%=--ignore=tests/%)

# tests/house/test_tiers.py proves that test and test-all together run every test once
test: $(DEV)     ## the tests of five minutes; those that need root or perf run where they can
	@$(PYTEST) $(MANY) -m "not slow and not live"
	@$(PYTEST) tests/live -m "not slow and live"   # one by one: these tests record the whole machine

test-all: test   ## all tests: after those of `make test` the slow ones, and those that need a quiet machine
	@$(PYTEST) $(MANY) --dist loadgroup -m "slow and not live"
	@$(PYTEST) -m "slow and live"       # one by one: these tests leave a CPU idle on purpose

fuzz: $(DEV)     ## a million mutated files and 100,000 random schedules, some hours; goes on where it was interrupted
	@$(BIN)/python tests/adversary/fuzz.py
	@$(BIN)/python tests/adversary/random_schedules.py

# numba hides what it compiles from coverage, so this pass runs the same sources as plain Python
coverage: $(DEV)   ## branch coverage of the simulator, the invariant and the domains, uncompiled
	@NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n 2 --cov --cov-report=term:skip-covered -k "not recordings" \
	  tests/invariant tests/topology tests/simulator/plain tests/simulator/engine/test_properties.py \
	  tests/simulator/engine/test_design.py tests/simulator/engine/test_queue.py

lab: $(LAB)      ## JupyterLab on copies of the notebooks, in reports/lab
	@$(BIN)/wastedcores lab reports/lab

docs: $(DEV)     ## the documentation's site, in build/docs/html; the first time executes all notebooks, about ten minutes
	@$(BIN)/python tools/build_docs.py

recordings: $(LAB)   ## make a bundled recording anew in a guest and compare the events; needs `wastedcores guest build`
	@$(BIN)/python tools/remake_recordings.py

bpf:             ## checker.bpf.o of the collectors, with which the online checker needs no compiler; needs clang, llvm and libbpf-dev
	@$(PYTHON) tools/build_bpf.py

# without clang the wheel has no object, and the online checker compiles with bcc
dist: $(DEV)     ## the wheel and the source archive, in dist
	-@$(PYTHON) tools/build_bpf.py
	@$(BIN)/python -m build --no-isolation

bench: $(DEV)    ## measure speed and size; writes benchmarks/RESULTS.md with the name of this machine
	@$(BIN)/python -m benchmarks

lint: $(DEV)     ## ruff, mypy and the tests of layers, citations and docstrings, as CI runs them
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/python -m pytest -q tests/house/test_layers.py tests/house/test_citations.py tests/house/test_docstrings.py

format: $(DEV)   ## run ruff's formatter and its safe fixes
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

clean:           ## remove what was generated
	rm -rf $(VENV) reports build dist .coverage collectors/*.o .pytest_cache .hypothesis .mypy_cache .ruff_cache
