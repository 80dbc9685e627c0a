# Two commands do everything: `make demo` (trains on the scene in the package; results in runs/demo) and `make test`. Both set up
# .venv first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt

# Two more: `make quick` (no training, no browser; a minute) and `make lint`.
.PHONY: demo test quick fuzz lint browser package docs clean

demo: $(VENV)/.stamp-demo
	$(BIN)/dofnerf demo --out runs/demo

test: $(VENV)/.stamp-dev lint browser
	$(BIN)/python -m pytest -n 2 --dist loadfile

quick: $(VENV)/.stamp-dev
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not train and not slow and not browser"

# 100 000 mutated inputs, then coverage-guided fuzzing of the binary readers, MINUTES each.
MINUTES ?= 10
fuzz: $(VENV)/.stamp-dev
	DOFNERF_FUZZ=10 $(BIN)/python -m pytest -n 2 tests/fuzz
	tests/fuzz/guided.sh $(BIN)/python $(MINUTES)

# Wheel and sdist in dist/, checked, and tried in empty environments of Python 3.10 and of the newest that is here.
package: $(VENV)/.stamp-dev
	$(PIP) -e '.[package]'
	env -u PYTHONPATH $(BIN)/python packaging/check.py

# The site in build/site, with a scene to walk around in, which is trained for it: a minute.
docs: $(VENV)/.stamp-dev
	rm -rf build/site-run
	$(BIN)/dofnerf train demo --steps 0.25 --out build/site-run
	NO_MKDOCS_2_WARNING=1 DOFNERF_SITE_RUN=build/site-run $(BIN)/mkdocs build -q
	@echo "open build/site/index.html"

lint: $(VENV)/.stamp-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Chromium for the tests of pages, where we may install it; without it they are skipped, and say so.
browser:
	@if command -v chromium >/dev/null || command -v google-chrome >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing Chromium with apt-get, for the tests of pages in a browser (make quick needs none)"; \
	  { apt-get install -qy chromium || { apt-get update -q && apt-get install -qy chromium; }; } >/dev/null 2>&1 \
	    || echo "that failed: those tests will be skipped"; \
	else echo "no Chromium: the tests of pages in a browser will be skipped (apt-get install chromium)"; fi

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
