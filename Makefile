# `make` lists the targets. Set-up steps leave a stamp in .venv and run again only when their lock changes.

PYTHON ?= python3
# One more than the cores that it is meant for: some tests wait for a cluster, a browser or a process that was killed.
WORKERS ?= 3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
# What an installation depends on; a changed kernel alone is compiled again when it is imported.
BUILT := pyproject.toml meson.build src/miscal/kernels/meson.build

# Reproductions of published tables read files that are not part of the repository.
ifneq ($(wildcard ../shared/data),)
export MISCAL_DATA ?= ../shared/data
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo test system lint typing docs bench oracles reproduce studies package kernels-checked lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMPS)/dev $(STAMPS)/torch ## build .venv with every extra that the tests need

demo: $(STAMPS)/demo ## audit the bundled flights and leave miscal-demo/report.html
	$(BIN)/miscal demo

# The tests start many processes; without compiled modules each would compile every library again, and an editable
# installation leaves none of its own.
test: export PYTHONDONTWRITEBYTECODE :=
test: setup system ## run every test, the doctests included
	$(BIN)/python -m compileall -q src/miscal
	$(BIN)/python -m pytest -n $(WORKERS)

system: # the browser and the Java runtime that two groups of tests need
	@bash scripts/system_packages.sh

lint: setup ## check style and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python scripts/lint_imports.py

typing: setup ## check the types of src, strictly
	$(BIN)/mypy

# -E reads every page again: a partial build loses the index entries of the pages that it leaves, and with them the
# search for a name of the glossary.
docs: setup ## build the documentation into docs/_build, warnings are errors
	$(BIN)/python -m sphinx -E -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: .venv-peers/stamp ## time the library against its peers, one table of ratios
	.venv-peers/bin/python benchmarks/run.py

oracles: .venv-peers/stamp ## compute the peers' numbers again that tests/oracles compares with
	.venv-peers/bin/python tests/oracles/make_all.py

reproduce: setup ## recompute the published tables of the papers
	$(BIN)/python -m studies.reproduce

studies: setup ## rerun the studies whose results are committed (long)
	$(BIN)/python -m studies.run

package: setup ## build the sdist and the wheel, install each in an empty environment and test it there
	bash scripts/package.sh

kernels-checked: setup ## test the kernels built with every check of bounds, then under the address sanitiser
	bash scripts/checked_kernels.sh

lock: setup ## resolve the dependencies again and write requirements/*.lock
	PATH="$(abspath $(BIN)):$$PATH" bash scripts/lock.sh

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) .venv-peers .venv-checked build dist docs/_build docs/reference/generated miscal-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# ------------------------------------------------------------------------------------------------- set-up steps
$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "miscal needs Python 3.11 or later: make PYTHON=python3.12 ..."; exit 1; }
	[ -x $(BIN)/python ] || $(PYTHON) -m venv --without-pip $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/demo: $(STAMPS)/venv requirements/demo.lock $(BUILT)
	bash scripts/install.sh requirements/demo.lock
	@touch $@

$(STAMPS)/dev: $(STAMPS)/venv requirements/dev.lock $(BUILT)
	bash scripts/install.sh requirements/dev.lock
	@touch $@ $(STAMPS)/demo

$(STAMPS)/torch: $(STAMPS)/dev
	bash scripts/install_torch.sh
	@touch $@

.venv-peers/stamp: requirements/peers.txt $(BUILT)
	PYTHON="$(PYTHON)" bash scripts/install_peers.sh
	@touch $@
