# Every target sets up what it needs; `make help` lists them. CI runs `make test`.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types unit bench tables clean

help:  ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

setup: $(READY)  ## Create .venv with the pinned dependencies

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

demo: $(READY)  ## Train SCSD and the simple picks on MultiDigits; table, results.json, report.html
	$(BIN)/viewgap demo --out out/demo

test: lint types unit  ## Lint, types and all tests

lint: $(READY)  ## Style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

unit: $(READY)
	$(BIN)/pytest -n 2 --dist loadfile

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
	rm -rf .venv out .pytest_cache .mypy_cache .ruff_cache
