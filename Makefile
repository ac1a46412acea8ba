# SPDX-License-Identifier: Apache-2.0
# make demo: sets up, builds, records a bundled workload and shows what it found.
# make test: sets up, builds, lints and runs every test.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := build/stamps
FUZZ_SECONDS ?= 120

NATIVE := $(shell git ls-files -co --exclude-standard -- schemas include capture runtime engine bindings workloads src/stallscope/views/html/page CMakeLists.txt 2>/dev/null)
# An editable install knows the modules that were there when it was made.
MODULES := $(shell git ls-files -co --exclude-standard -- src 2>/dev/null | sort | sha256sum | cut -c1-12)
BUILT := $(STAMPS)/build-$(MODULES)

.PHONY: help setup build demo test lint unit engine-test test-sanitize fuzz bench reproduce docs pictures wheel clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

$(STAMPS)/system: cmake/setup.sh
	@mkdir -p $(STAMPS)
	@bash cmake/setup.sh
	@touch $@

$(STAMPS)/venv: pyproject.toml $(STAMPS)/system
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade 'pip>=25.1'
	$(BIN)/pip install -q --group dev 'click>=8.1' 'duckdb>=1.1' 'iced-x86>=1.21' 'msgspec>=0.18' 'pyarrow>=15' 'rich>=13' \
	  'starlette>=0.37' 'textual>=0.60' 'uvicorn>=0.29'
	@touch $@

$(BUILT): $(STAMPS)/venv $(NATIVE) pyproject.toml
	$(BIN)/pip install -q --no-build-isolation --no-deps -e .
	@rm -f $(STAMPS)/build-*
	@touch $@

setup: $(STAMPS)/venv ## install what is missing: system packages, .venv

build: $(BUILT) ## leaves .venv/bin/stallscope

demo: build ## record a bundled workload and show what was found
	@$(BIN)/stallscope demo

test: build lint engine-test unit ## lint, types, and every test

lint: $(STAMPS)/venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@git ls-files -co --exclude-standard -- '*.c' '*.h' '*.cpp' | xargs clang-format --dry-run --Werror
	@$(BIN)/python tests/longest.py

# In the folder of the extension, whose objects they share.
engine-test: build ## the engine's own tests, without Python
	@set -e; folder=$$(ls -dt build/cp3*-linux_* | head -1); \
	cmake -S . -B $$folder -DSTALLSCOPE_TESTS=ON >/dev/null; \
	cmake --build $$folder --target engine_tests >/dev/null; \
	$$folder/tests/unit/engine/engine_tests

# Tests of one file stay together: they share recordings. Those that look at running programs come
# last, no more of them at a time than there are processors.
unit: build
	$(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile -m 'not real_time'
	$(BIN)/pytest -n auto --maxprocesses 2 --dist loadfile -m real_time

test-sanitize: $(STAMPS)/venv ## the engine's tests under address and undefined-behaviour sanitizers
	@cmake -S . -B build/sanitize -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSTALLSCOPE_TESTS=ON -DSTALLSCOPE_CAPTURE=OFF -DSTALLSCOPE_SANITIZE=ON >/dev/null
	@cmake --build build/sanitize --target engine_tests >/dev/null
	@build/sanitize/tests/unit/engine/engine_tests

fuzz: build ## a million mutations of a recording, a million of a stream, and the fuzzers for a while
	$(BIN)/python tests/fuzz/mutate_recording.py
	@cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DCMAKE_CXX_FLAGS=-fsanitize=fuzzer-no-link,address,undefined -DSTALLSCOPE_FUZZ=ON -DSTALLSCOPE_CAPTURE=OFF >/dev/null
	@cmake --build build/fuzz >/dev/null
	@mkdir -p build/fuzz/corpus-stream build/fuzz/corpus-symbols build/fuzz/corpus-types build/fuzz/seeds-types build/fuzz/corpus-perf build/fuzz/corpus-spe build/fuzz/corpus-traces
	gcc -g -O1 -w tests/programs/symbols/layouts.c -o build/fuzz/seeds-types/c
	g++ -g -O1 -w tests/programs/symbols/layouts.cpp -o build/fuzz/seeds-types/cxx
	gcc -gdwarf-4 -O2 -w tests/programs/typed.c -o build/fuzz/seeds-types/typed
	$(BIN)/stallscope record -q -f -o build/fuzz/true.stallscope -- /bin/true
	build/fuzz/tests/fuzz/mutate_stream build/fuzz/true.stallscope/stream.ss 20000
	build/fuzz/tests/fuzz/fuzz_stream -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 build/fuzz/corpus-stream tests/fuzz/corpus/stream
	build/fuzz/tests/fuzz/fuzz_symbols -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 build/fuzz/corpus-symbols
	build/fuzz/tests/fuzz/fuzz_types -max_total_time=$(FUZZ_SECONDS) -max_len=400000 -print_final_stats=1 build/fuzz/corpus-types build/fuzz/seeds-types
	build/fuzz/tests/fuzz/fuzz_perf_data -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 build/fuzz/corpus-perf tests/fuzz/corpus/perf_data
	build/fuzz/tests/fuzz/fuzz_spe -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 build/fuzz/corpus-spe tests/fuzz/corpus/spe
	build/fuzz/tests/fuzz/fuzz_traces -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 build/fuzz/corpus-traces tests/fuzz/corpus/traces

bench: build ## speed against native runs and peers, as ratios
	@$(BIN)/python -m benchmarks

reproduce: build ## docs/reproduction/: what the tables of the original study become here
	@bash cmake/setup.sh phalanx mariadb-server-core mariadb-client-core sysbench
	@$(BIN)/python -m benchmarks.reproduce

docs: build ## the pages that are made from declarations
	@$(BIN)/python -m schemas.generate --docs docs/tables.md

pictures: build ## run the examples of the docs again: output and pictures
	@$(BIN)/python docs/examples.py

wheel: $(STAMPS)/venv ## dist/*.whl
	$(BIN)/pip wheel -q --no-build-isolation --no-deps -w dist .

clean: ## everything that was built
	rm -rf build dist $(VENV)
