# make demo | test | soak | audit | test-browser | lint | lab | clean     (PYTHON=python3.12 to choose another interpreter)
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3,$(if $(shell $(p) -c "import sys; print(sys.version_info[:2] in ((3,11),(3,12)) or '')" 2>/dev/null | grep True),$(p))))
STAMP := $(VENV)/.installed

.PHONY: demo test soak audit test-browser lint lab clean

demo: $(STAMP)
	$(BIN)/python -m diffgr2lib.reproduce --preset toy --only 01,02,03,04,05

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --ignore=tests/browser -n 2 --dist loadfile

soak: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/survival -m soak -s

audit: $(STAMP)  # known vulnerabilities of the pins; reports, and never fails
	-$(BIN)/pip install -q --progress-bar off -c constraints.txt -e ".[audit]"
	-$(BIN)/pip-audit --strict --requirement constraints.txt --no-deps --disable-pip

test-browser: $(STAMP)
	$(BIN)/pip install -q --progress-bar off -c constraints.txt -e ".[browser]"
	$(BIN)/python -m pytest tests/browser -rs

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lab: $(STAMP)
	$(BIN)/jupyter lab notebooks

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or 3.12 was found; install one or run make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@echo "Installing PyTorch and the rest from constraints.txt (a few minutes) ..."
	$(BIN)/pip install -q --progress-bar off -c constraints.txt torch
	$(BIN)/pip install -q --progress-bar off -c constraints.txt -e ".[notebooks,test]"
	@touch $@

clean:
	rm -rf $(VENV) artifacts build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache
