# Every target sets up what it needs; `make help` lists them. CI runs `.ci/run`.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick test-anywhere lint types unit test-lowest \
  docs docs-setup dist lock coverage faults fuzz serve-fuzz soak bench tables clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: $(READY)  ## Create .venv with the pinned dependencies

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

demo: $(READY)  ## Train SCSD and the baselines on MultiDigits; table, results.json, report.html
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

# What `make docs` runs, too, is left to it.
unit: $(READY)
	$(BIN)/pytest -n 2 --dist worksteal -m 'not in_docs'

LOWEST := .venv-lowest
# The command line, files and model files, and one fit of every method.
LOWEST_TESTS := tests/test_import.py tests/test_lowest_versions.py tests/test_cli.py \
  tests/test_cli_output.py tests/test_model_file.py tests/data/formats/test_reading.py \
  tests/contract/test_estimator.py

test-lowest: $(LOWEST)/.ready  ## The command line, files and methods with the lowest versions allowed
	$(LOWEST)/bin/python -m pytest $(LOWEST_TESTS)

$(LOWEST)/.ready: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check -c constraints-lowest.txt \
	  -e '.[files,figures]' hypothesis pytest
	@touch $(LOWEST)/.ready

serve-fuzz: $(READY)  ## 10,000 malformed requests to the service, and 2,000 drawn from its description
	$(BIN)/python -m benchmarks.serve_fuzz --out out/serve_fuzz.json
	SERVE_EXAMPLES=500 $(BIN)/pytest tests/serve/test_openapi.py

DOCS_READY := .venv/.docs-ready

docs-setup: $(DOCS_READY)

docs: $(DOCS_READY)  ## The documentation as HTML, docs/_build/html; needs no network
	$(BIN)/python -m sphinx -W --keep-going -q -j 2 -b html docs docs/_build/html

$(DOCS_READY): $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $(DOCS_READY)

dist: $(READY)  ## Wheel, sdist and list of packages (SBOM), and a quick start from the wheel in clean environments
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/python tools/sbom.py dist
	$(BIN)/python tools/check_wheel.py dist

lock: $(READY)  ## Pins with hashes of what the library needs, from constraints.txt
	$(BIN)/python tools/lock.py

# Wrong here is wrong everywhere: every line has a test of its own.
COVERED := src/viewgap/data/validation.py,src/viewgap/fsio.py,src/viewgap/model_f*.py,src/viewgap/metrics/*
COVERED_TESTS := tests/metrics tests/test_fsio.py tests/test_model_file.py tests/test_model_folder_properties.py \
  tests/test_kept_models.py tests/test_cli_verify.py tests/test_notebook.py tests/methods/test_one_label.py \
  tests/data/test_validation.py tests/data/test_validation_refusals.py tests/data/test_viewset.py \
  tests/data/test_missing_values.py tests/data/rows/test_lazy_rows.py tests/data/labels/test_sparse_labels.py \
  tests/data/rows/test_tables.py tests/data/rows/test_alignment.py tests/data/rows/test_ids.py tests/data/labels/test_labels.py \
  tests/faults/test_disk_errors.py tests/faults/test_disk_errors_while_saving_a_model.py \
  tests/faults/test_damaged_model.py tests/faults/test_forged_model.py tests/faults/test_pickles.py \
  tests/faults/test_model_replaced_while_loading.py tests/faults/test_types_and_shapes.py

coverage: $(READY)  ## Validation, file writing, model files and metrics: is every line reached by their own tests?
	$(BIN)/coverage run --data-file=.coverage_own --include='$(COVERED)' -m pytest $(COVERED_TESTS)
	$(BIN)/coverage report --data-file=.coverage_own --show-missing --fail-under=100

# The slow lanes: minutes to an hour each, and no part of CI. docs/reliability.md shows what they found.
faults: $(READY)  ## Kills while writing, many threads and processes: the slow tests of faults
	$(BIN)/pytest --slow-faults tests/faults

fuzz: $(READY)  ## Damaged files: at random, and guided by coverage; benchmarks/fuzz.json, coverage_fuzz.json
	$(BIN)/python -m benchmarks.fuzz
	$(BIN)/python -m benchmarks.coverage_fuzz

soak: $(READY)  ## 500 fits and 100,000 predictions in one process, an hour of service; benchmarks/soak.json, serve_soak.json
	$(BIN)/python -m benchmarks.soak
	$(BIN)/python -m benchmarks.serve_soak

bench: $(READY)  ## Speed and memory beside naive references; table, benchmarks/latest.json
	$(BIN)/python -m benchmarks

TABLE2 := results/corel5k/solvers results/corel5k/baselines results/corel5k/paper

tables: $(READY)  ## Tables of results/ and, in out/figures, the figures of the SCSD paper
	for style in markdown csv latex; do \
	  case $$style in markdown) end=md;; csv) end=csv;; latex) end=tex;; esac; \
	  $(BIN)/viewgap bench table --published --format $$style --out results/corel5k/table2.$$end $(TABLE2); \
	  $(BIN)/viewgap bench table --published --format $$style --out results/corel5k/ablation.$$end results/corel5k/ablation; \
	done
	$(BIN)/viewgap bench compare results/corel5k/ablation > results/corel5k/ablation_tests.txt
	$(BIN)/viewgap bench ranks results/all_datasets results/corel5k/default_cross_fitted --control ensemble --out out/ranks
	cp out/ranks/ranks_over_data_sets_AP.svg docs/_static/ranks.svg
	for name in complete curves_views curves_labels curves_training sensitivity_tau \
	    sensitivity_alpha_lambda codebook; do \
	  $(BIN)/viewgap bench plot results/corel5k/$$name --out out/figures/$$name; \
	done
	$(BIN)/python docs/tables.py

clean:  ## Remove what was built
	rm -rf .venv $(LOWEST) out dist docs/_build docs/generated docs/gallery .pytest_cache .mypy_cache .ruff_cache
