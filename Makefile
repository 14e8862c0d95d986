# make setup: .venv with the pinned packages; make demo: the whole pipeline on rendered scenes; make test: the tests; make acceptance: the slow ones; make docs: the site; make dist: what a release uploads; make pins: newer packages.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: setup demo test acceptance lint docs dist pins

PYTHON ?= $(shell command -v python3.11 || command -v python3)
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export VIRTUAL_ENV := $(CURDIR)/.venv

# The same bytes on every x86-64 processor with AVX2, Intel's and AMD's: MKL's only path that is the same on both, and no
# library takes AVX-512 where it is there. A product then has about nine tenths of its speed.
PORTABLE := MKL_CBWR=COMPATIBLE MKL_DYNAMIC=FALSE OPENBLAS_CORETYPE=Haswell NPY_DISABLE_CPU_FEATURES=X86_V4 \
	ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 OMP_NUM_THREADS=2 OMP_WAIT_POLICY=PASSIVE

setup: .venv/.ready .dvc/plots.html

# uv, because it takes 50 s where pip takes 200. Whatever is installed has a hash in constraints.txt, uv itself first.
.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("vse-pipe needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@echo 'Set-up: 3 GB to download, 7 GB in .venv, 1 to 4 minutes, once'
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	sed -n '/^uv==/,/[^\\]$$/p' constraints.txt > .venv/uv.txt
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r .venv/uv.txt
	uv pip install --require-hashes -r constraints.txt
	uv pip install --no-deps --no-build-isolation -e .
	@echo 'Byte code, wherever Python is told to write none: half a minute'
	.venv/bin/python -m compileall -qq -j 0 -x '/tests?/' .venv/lib || true
	.venv/bin/python -m compileall -q pipeline/vse_pipe
	touch $@

# The page that `dvc plots` fills, with Vega inside.
.dvc/plots.html: .venv/.ready $(wildcard pipeline/vse_pipe/tools/template/plots_page*) $(wildcard pipeline/vse_pipe/tools/init.py)
	vse-pipe plots

demo: setup
	$(PORTABLE) dvc repro
	@echo
	@echo "The report is at $(CURDIR)/reports/index.html"

# Byte code is kept whatever the caller's environment says: hundreds of processes import torch.
PYTEST := env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1 python -m pytest -n 2 --dist loadscope
# In the order of tests/conftest.py, where else the modules of few tests come last: minutes of one worker's time.
LONG_FIRST := --no-loadscope-reorder

# TESTS='tests/rules tests/core' runs these alone.
test: setup
	$(PYTEST) -m "not acceptance" $(TESTS)

# What takes minutes: pages walked, workflows, the whole pipeline, processes and their exit status, browsers, kills, compilers.
# These wait for disks and for each other: a third worker on two cores saves a fifth of the time.
acceptance: setup
	$(PYTEST) -n 3 $(LONG_FIRST) -m acceptance

lint: setup
	ruff check .
	ruff format --check .
	lint-imports
	mypy

# The site of the documentation, in build/site. A broken link or an unknown name in it is an error.
docs: setup
	python -m tests.docs.site

# The source archive and the wheel made from it. The wheel is installed where nothing else is, and must import from any folder.
dist: setup
	rm -rf dist build/empty
	uv build --quiet --no-build-isolation
	uv venv --quiet --python .venv/bin/python build/empty
	uv pip install --quiet --python build/empty/bin/python --constraints constraints.txt dist/*.whl
	cd / && $(CURDIR)/build/empty/bin/python -c 'import vse_pipe'
	cd / && $(CURDIR)/build/empty/bin/vse-pipe --help > /dev/null

# The newest versions that pyproject.toml allows, with the hashes of all their files, for every platform.
pins: setup
	uv pip compile --quiet --upgrade --universal --generate-hashes --no-annotate --no-header --extra test --extra dev --extra docs --group setup pyproject.toml -o constraints.txt
