# The whole loop is `make check`. Everything happens in .venv; nothing outside the tree is touched.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
HERE := tests/unit tests/contract tests/integration
SOURCES := kvscope tests benchmarks docs/pictures docs/incidents

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup check lint format engines test here lab bench demo pictures dashboards lock clean

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-10s %s\n", $$1, $$2 }'

setup: $(READY) ## make .venv with everything that the tests need, pinned and hash-checked

$(READY): requirements/test.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "kvscope needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
		{ echo "This Python cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/test.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

check: lint ## all that must hold before a commit, in about a minute: lint and the fast tests
	$(BIN)/pytest -q -n 2 -m 'not lab and not slow' tests/unit tests/contract

lint: $(READY) ## format, lint, types and import rules
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports

format: $(READY) ## put the code into its one form
	$(BIN)/ruff check --fix-only --quiet $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

engines: $(READY) ## the Python environment that the real engines run in, and the releases that do not (4 to 7 GB, once)
	$(BIN)/kvscope lab setup
	$(BIN)/kvscope lab files

# What fails is tried once more, alone: two at a time, or beside others on the machine, a second can become ten.
AGAIN := --last-failed --last-failed-no-failures none
LONGEST := --durations=25 --durations-min=5

test: here lab ## every test, those on real vLLM engines too

here: engines ## every test that needs no engine
	$(BIN)/pytest -n 2 --dist loadfile $(LONGEST) $(HERE) || $(BIN)/pytest $(AGAIN) $(HERE)

lab: engines ## every test on real engines
	$(BIN)/pytest $(LONGEST) tests/lab || $(BIN)/pytest $(AGAIN) tests/lab

bench: $(READY) ## what an event costs, what a request costs, how fast the analysis is
	$(BIN)/python benchmarks

demo: $(READY) ## a real prefill/decode pair on this machine, 60 requests, and where their time went
	$(BIN)/kvscope lab run --connector push --dispatch early --requests 60 --rate 2 --input-tokens 1000

pictures: $(READY) ## draw docs/pictures anew from the recordings there, and write docs/incidents
	$(BIN)/python docs/pictures/make.py
	$(BIN)/python docs/incidents/make.py
	$(BIN)/python -m docs.pictures.dashboards
	$(BIN)/python -m docs.pictures.perfetto

dashboards: $(READY) ## render dashboards/ anew
	$(BIN)/kvscope dashboards render dashboards
	rm dashboards/kubernetes/configmaps.yaml

lock: ## write requirements/test.txt anew from requirements/test.in (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--quiet --output-file requirements/test.txt requirements/test.in

clean: ## remove .venv and every cache in the tree
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
