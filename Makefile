# Everything from a clean clone: `make run`, `make test`. The targets make their own environment in .venv.
# Another Python: make PYTHON=python3.12 run

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
# One more than processors: many a test waits for time to pass.
WORKERS ?= 3
# Tests start hundreds of programs of ours: each would be compiled to bytecode anew.
unexport PYTHONDONTWRITEBYTECODE

PYX := $(wildcard stomprelay/*/*.pyx stomprelay/*/*/*.pyx)
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n $(WORKERS)
# One pip at a time, whatever `make -j` makes at once.
ALONE := $(PYTHON) -c 'import fcntl, os, sys; lock = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR); \
  os.set_inheritable(lock, True); fcntl.flock(lock, fcntl.LOCK_EX); os.execvp(sys.argv[2], sys.argv[2:])' $(VENV)/.lock
INSTALL := $(ALONE) $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# With the tools that are there, not with new ones in an environment of their own.
OURS := STOMPRELAY_PURE=1 $(INSTALL) --no-build-isolation --editable

.DEFAULT_GOAL := help
.PHONY: help run build ready test test-deep delta-jars brokers class-archive coverage lint format types check bench sim sim-models chaos crash demo docs news clean distclean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.run ## the relay on 127.0.0.1:61613 with the embedded broker (ARGS="--upstream tcp://...")
	@test -e $(VENV)/.built || echo "Nothing is compiled: \`make build\` does it, for speed."
	$(BIN)/stomprelay run $(ARGS)

build: $(VENV)/.built ## the compiled modules, with which the relay is faster; they need a C compiler

test: ready ## the tests (ARGS="-k decoder", ARGS="-m 'not broker'"; WORKERS=0 for one process)
	$(PYTEST) $(ARGS)

test-deep: ready ## all of them, with a long budget: faults and kills in earnest, every combination, more examples
	$(PYTEST) --deep $(ARGS)

delta-jars: $(VENV)/.test ## the jars of Delta Lake, from Maven Central, without which its tests are skipped
	$(BIN)/python -m stomprelay.pipeline.spark.delta

brokers: $(VENV)/.test ## Artemis, ActiveMQ 6 and Spring's clients, from Maven Central, without which their tests are skipped
	$(BIN)/python -m tests.e2e.downloads

class-archive: $(VENV)/.test ## Java's class archive, with which Spark starts faster; else the first start makes it
	$(BIN)/python -m stomprelay.pipeline.spark.class_archive

coverage: ready ## the tests, and which lines and branches they reach
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

lint: $(VENV)/.dev ## style, format, import layers, news fragments
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo
	$(BIN)/towncrier build --draft > /dev/null

format: $(VENV)/.dev ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: $(VENV)/.dev ## mypy, strict
	$(BIN)/mypy

check: lint types test ## all that must hold before a change goes in

bench: ready ## speed beside HAProxy, as ratios, with its goals (ARGS="--only send --rounds 3")
	$(BIN)/python -m bench $(ARGS)

sim: ready ## clients, relays, brokers and bad networks in virtual time, for a minute (ARGS="--seed 1 --world 7 --watch", ARGS="--shrink")
	$(BIN)/python -m sim --seed $$(date -u +%Y%m%d) $(ARGS)

sim-models: ready ## the simulator's models of brokers, held against those that are installed (ARGS="--only nack rabbitmq")
	$(BIN)/python -m sim.models $(ARGS)

chaos: ready ## sessions while their brokers are killed, frozen, cut off, for a minute (ARGS="--seed 1 --seconds 60", ARGS="--faults 2000")
	$(BIN)/python -m chaos --seed $$(date -u +%Y%m%d) $(ARGS)

crash: ready ## SIGKILL to relay, pipeline, source, replay; what is left of it all (ARGS="--rounds 3 --only journal")
	$(BIN)/python -m chaos.crash $(ARGS)

demo: ready ## clients, a relay, a failover for twenty seconds; then tables and a report to look at (ARGS=move: a move between brokers)
	$(BIN)/python -m demo $(ARGS)

docs: $(VENV)/.dev ## the pages as a site, in build/site; a link that leads nowhere is an error
	$(BIN)/sphinx-build -q -W --keep-going -d build/doctrees -c docs/site . build/site

news: $(VENV)/.dev ## the next release's news, as the fragments have it now
	@$(BIN)/towncrier build --draft

clean: ## remove what builds and tests leave
	rm -rf build dist *.egg-info htmlcov .coverage .coverage.* .hypothesis
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	rm -f $(patsubst %.pyx,%.c,$(PYX)) $(patsubst %.pyx,%.*.so,$(PYX))
	rm -f $(VENV)/.built
	rm -f twisted/plugins/dropin.cache twistd.log* twistd.pid
	find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## and the environment
	rm -rf .venv

# One stamp for each set of dependencies, made anew when the metadata changes, and one for what is compiled.

METADATA := setup.cfg setup.py pyproject.toml

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "stomprelay needs Python 3.11 or newer, and '$(PYTHON)' is not; name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { \
	  echo "'$(PYTHON)' cannot make environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# A newer pip than most Pythons bring along: it reads the lists of versions in half of the time.
$(VENV)/.tools: pyproject.toml | $(BIN)/python
	@$(INSTALL) --upgrade pip \
	  $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])')
	@touch $@

$(VENV)/.run: $(METADATA) $(VENV)/.tools
	@echo "Installing what the relay needs."
	@$(OURS) .
	@touch $@

$(VENV)/.test: $(METADATA) $(VENV)/.tools
	@echo "Installing what the tests need, Spark among it."
	@$(OURS) '.[test,pipeline]'
	@touch $@ $(VENV)/.run

$(VENV)/.dev: $(METADATA) $(VENV)/.tools
	@echo "Installing what developers need."
	@$(OURS) '.[test,pipeline,dev]'
	@touch $@ $(VENV)/.test $(VENV)/.run

$(VENV)/.built: setup.py pyproject.toml $(PYX) $(wildcard stomprelay/*/*.pxd stomprelay/*/*/*.h) $(VENV)/.tools
	@echo "Compiling, where there is a C compiler."
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

# Both at once: the one waits for the disk, the other for the compiler.
ready:
	@$(MAKE) --no-print-directory -j2 $(VENV)/.test $(VENV)/.built
