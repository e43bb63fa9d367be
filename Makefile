# Every target sets up what it needs; `make help` lists them. CI runs `.ci/run`.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick test-anywhere lint types unit test-lowest bench tables clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: $(READY)  ## Create .venv with the pinned dependencies

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

demo: $(READY)  ## Train SCSD and the simple picks on MultiDigits; table, results.json, report.html
	$(BIN)/viewgap demo --out out/demo

test: lint types unit  ## Lint, types and all tests

quick: lint  ## Lint and all tests but the slow ones: under two minutes on two cores
	$(BIN)/pytest -n 2 --dist worksteal -m 'not slow'

test-anywhere: $(READY)  ## Numeric tests as other processors round; table, benchmarks/anywhere.json
	$(BIN)/python -m benchmarks.anywhere

lint: $(READY)  ## Style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

unit: $(READY)
	$(BIN)/pytest -n 2 --dist loadfile

LOWEST := .venv-lowest
# The command line, files and model files, and one fit of every method.
LOWEST_TESTS := tests/test_import.py tests/test_lowest_versions.py tests/test_cli.py \
  tests/test_cli_output.py tests/test_model_file.py tests/data/test_readers.py \
  tests/contract/test_estimator.py

test-lowest: $(LOWEST)/.ready  ## The command line, files and methods with the lowest versions allowed
	$(LOWEST)/bin/python -m pytest $(LOWEST_TESTS)

$(LOWEST)/.ready: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check -c constraints-lowest.txt \
	  -e '.[files,figures]' hypothesis pytest
	@touch $(LOWEST)/.ready

bench: $(READY)  ## Speed and memory beside naive references; table, benchmarks/latest.json
	$(BIN)/python -m benchmarks

TABLE2 := results/corel5k/solvers results/corel5k/baselines results/corel5k/paper

tables: $(READY)  ## Render the tables of results/ from their records
	for style in markdown csv latex; do \
	  case $$style in markdown) end=md;; csv) end=csv;; latex) end=tex;; esac; \
	  $(BIN)/viewgap bench table --published --format $$style --out results/corel5k/table2.$$end $(TABLE2); \
	  $(BIN)/viewgap bench table --published --format $$style --out results/corel5k/ablation.$$end results/corel5k/ablation; \
	done
	$(BIN)/viewgap bench compare results/corel5k/ablation > results/corel5k/ablation_tests.txt

clean:  ## Remove what was built
	rm -rf .venv $(LOWEST) out .pytest_cache .mypy_cache .ruff_cache
