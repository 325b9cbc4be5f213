# `make demo` and `make test` need a fresh Debian 12 with Python 3.11, g++ and make; nothing else.
PYTHON ?= python3
FUZZ_INPUTS ?= 1000000
SETUP = $(PYTHON) tools/bootstrap.py
RUN = .venv/bin
# Most tests wait for a program of their own; one worker a core, which take over from each other.
PYTEST = $(RUN)/python -m pytest -q -n auto --dist worksteal
DEMO_DEEPSPEED = 0.17.2 0.19.8
TABLE_DEEPSPEED = 0.9.5 0.14.0 0.14.2 0.14.3 0.17.2 0.18.5 0.18.8 0.19.2 0.19.8

.PHONY: demo test test-deepspeed test-frameworks test-long test-triton soak mutate-core fuzz sanitize lint format verify-reducer gpu-check bench-hooks bench-engine bench-collectives bench-trace bench-vgpu setup clean help

help:
	@echo "make demo            set up, then find the race of DeepSpeed 0.17.2 without a GPU"
	@echo "make test            set up, then run the tests"
	@echo "make test-deepspeed  every release and scenario of the table in docs/deepspeed.md"
	@echo "make test-frameworks 200 steps of transformers, Lightning, DDP, FSDP2, DeepSpeed: no finding"
	@echo "make test-long       random programs against the oracle, soak runs"
	@echo "make test-triton     inductor and Triton kernels on the virtual GPU (installs Triton into build/)"
	@echo "make soak            DDP, FSDP2 and ZeRO on two virtual GPUs, RUNS=200 runs per policy, against the CPU"
	@echo "make mutate-core     break each rule of the engine in turn; every mutant must be killed"
	@echo "make fuzz            damaged input for engine, litmus reader and trace reader, FUZZ_INPUTS=1000000 each (clang)"
	@echo "make sanitize        the engine and the virtual GPU under ASan, UBSan and TSan"
	@echo "make verify-reducer  the own reducer on 2, 3 and 4 ranks: schedules, every edge left out, bytes, memory"
	@echo "make gpu-check       on a machine with a GPU: build, gpu-marked tests, cost, coverage; 10 minutes"
	@echo "make bench-hooks     added time per op and per ZeRO-2 step against PyTorch's sanitizer; bounds"
	@echo "make bench-engine    the engine against PyTorch's sanitizer and TSan fibers"
	@echo "make bench-collectives  recording, comparing and checking collectives; 10,000 ranks"
	@echo "make bench-trace     added time per op while a trace is written"
	@echo "make bench-vgpu      what the virtual GPU adds per op and at start, and its bounds"
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

test-frameworks:
	@$(SETUP) --deepspeed $(DEMO_DEEPSPEED) --frameworks
	$(PYTEST) tests/frameworks -m frameworks
	$(PYTEST) tests/rules/test_triton_launches.py

test-long: setup
	$(PYTEST) -m long

# Triton as torch's own metadata names it, in a folder of its own: nothing else is to need it.
TRITON = $$($(RUN)/python -c 'from importlib.metadata import requires; \
	print(next(r.split(";")[0] for r in requires("torch") if r.startswith("triton")))')
test-triton: setup
	test -d build/triton/triton || $(RUN)/pip install -q --no-deps --target build/triton "$(TRITON)"
	PYTHONPATH=build/triton $(RUN)/python -m pytest -q -m "long or not long" \
		tests/vgpu/test_inductor.py tests/rules/test_triton_launches.py

RUNS = 200
soak: setup
	$(RUN)/python tools/soak.py --runs $(RUNS)

mutate-core: setup
	$(RUN)/python tools/mutate_core.py

fuzz:
	@$(SETUP) --tools
	tools/fuzz_core.sh $(FUZZ_INPUTS)
	$(RUN)/python tools/fuzz_litmus.py --inputs $(FUZZ_INPUTS)
	$(RUN)/python tools/fuzz_trace.py --inputs $(FUZZ_INPUTS)

sanitize: setup
	tools/sanitize_core.sh
	tools/sanitize_vgpu.sh

verify-reducer: setup
	$(RUN)/streamguard verify-reducer --json build/reducer.json

bench-hooks:
	@$(SETUP) --deepspeed 0.19.8
	$(RUN)/python bench/hooks.py

# Needs no setup of ours: it builds over the torch that the machine has.
gpu-check:
	$(PYTHON) tools/gpu_check.py

bench-trace:
	@mkdir -p build
	$(CXX) -std=c++17 -O2 -DNDEBUG -Icsrc bench/trace_cost.cc csrc/trace/recorde*.cc csrc/core/*.cc -o build/trace_cost
	build/trace_cost

bench-collectives: setup
	$(RUN)/python bench/collectives.py

bench-engine: setup
	$(RUN)/python bench/engine.py

# The CPU build is only read for its start-up time, from a folder of its own.
bench-vgpu: setup
	test -d build/cpu_torch || $(RUN)/pip install -q --no-deps --target build/cpu_torch \
		torch==2.13.0
	$(RUN)/python bench/vgpu.py

lint:
	@$(SETUP) --tools
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/python tools/mutate_core.py --check
	git ls-files 'csrc/*.cc' 'csrc/*.h' | xargs $(RUN)/clang-format --dry-run -Werror

format:
	@$(SETUP) --tools
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .
	git ls-files 'csrc/*.cc' 'csrc/*.h' | xargs $(RUN)/clang-format -i

clean:
	rm -rf build .venv .deepspeed *.egg-info streamguard/vgpu/lib
	find streamguard -name '*.so' -delete
