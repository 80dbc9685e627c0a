# Two commands do everything: `make demo` (trains on the scene in the package; results in runs/demo) and `make test`. Both set up
# .venv first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint clean

demo: $(VENV)/.stamp-demo
	$(BIN)/dofnerf demo --out runs/demo

test: $(VENV)/.stamp-dev lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(VENV)/.stamp-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  $(PYTHON) -m pip install -q --target $(VENV)-boot virtualenv && \
	  PYTHONPATH=$(VENV)-boot $(PYTHON) -m virtualenv -q $(VENV) && rm -rf $(VENV)-boot; }

$(VENV)/.stamp-demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.stamp-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.stamp-demo

clean:
	rm -rf $(VENV) runs build .pytest_cache .ruff_cache .mypy_cache
