# `make demo` and `make test` need a fresh Debian 12 with Python 3.11, g++ and make; nothing else.
PYTHON ?= python3
SETUP = $(PYTHON) tools/bootstrap.py
RUN = .venv/bin
# Most tests wait for a program of their own; one worker a core, which take over from each other.
PYTEST = $(RUN)/python -m pytest -q -n auto --dist worksteal
DEMO_DEEPSPEED = 0.17.2 0.19.8
TABLE_DEEPSPEED = 0.17.2 0.18.5 0.19.2 0.19.8

.PHONY: demo test test-deepspeed test-long lint format bench setup clean help

help:
	@echo "make demo            set up, then find the race of DeepSpeed 0.17.2 without a GPU"
	@echo "make test            set up, then run the tests"
	@echo "make test-deepspeed  every release and scenario of the table in docs/deepspeed.md"
	@echo "make test-long       random programs against the oracle, soak runs"
	@echo "make bench           costs as ratios against peers in the same run"
	@echo "make lint            ruff, mypy --strict, clang-format; make format repairs what it can"
	@echo "make clean           remove what was built; .venv and .deepspeed too"

setup:
	@$(SETUP) --deepspeed $(DEMO_DEEPSPEED)

demo: setup
	@$(RUN)/python examples/demo.py

test: setup
	$(PYTEST)

test-deepspeed:
	@$(SETUP) --deepspeed $(TABLE_DEEPSPEED)
	$(PYTEST) tests/deepspeed -m "deepspeed_matrix or not long"

test-long: setup
	$(PYTEST) -m long

bench: setup
	$(RUN)/python bench/run.py

lint:
	@$(SETUP) --tools
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	git ls-files 'csrc/*.cc' 'csrc/*.h' | xargs $(RUN)/clang-format --dry-run -Werror

format:
	@$(SETUP) --tools
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .
	git ls-files 'csrc/*.cc' 'csrc/*.h' | xargs $(RUN)/clang-format -i

clean:
	rm -rf build .venv .deepspeed *.egg-info streamguard/vgpu/lib
	find streamguard -name '*.so' -delete
