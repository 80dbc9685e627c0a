# Two commands do everything: `make demo` (trains on the scene in the package; results in runs/demo) and `make test`. Both set up
# .venv first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint browser clean

demo: $(VENV)/.stamp-demo
	$(BIN)/dofnerf demo --out runs/demo

test: $(VENV)/.stamp-dev lint browser
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(VENV)/.stamp-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Chromium for the tests of pages, where we may install it; without it they are skipped, and say so.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && { apt-get install -qy chromium || { apt-get update -q && apt-get install -qy chromium; }; } >/dev/null 2>&1; } \
	  || echo "no Chromium: the tests of pages in a browser will be skipped (apt-get install chromium)"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  $(PYTHON) -m pip install -q --target $(VENV)-boot virtualenv && \
	  PYTHONPATH=$(VENV)-boot $(PYTHON) -m virtualenv -q $(VENV) && rm -rf $(VENV)-boot; }

$(VENV)/.stamp-demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	$(BIN)/dofnerf demo --compile-only
	@touch $@

$(VENV)/.stamp-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.stamp-demo

clean:
	rm -rf $(VENV) runs/demo build .pytest_cache .ruff_cache .mypy_cache
