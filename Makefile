# Thin on purpose: CMake builds, tools/ prepares, this file only puts them in order. `make help` lists what there is.
#   PRESET=dev|release|asan|ubsan|tsan   which build of CMakePresets.json (release)
#   SWIVEL_LLAMA_ROOT=PREFIX             an installed llama.cpp instead of the pinned one

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
PRESET ?= release
build := build/$(PRESET)

.PHONY: help build demo test test-models bench format clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ccache is not in the presets: naming a launcher that is missing fails the build.
build: ## install what is missing, get llama.cpp, build the plugin and the tool
	@tools/setup
	@root=$${SWIVEL_LLAMA_ROOT:-$$(tools/llama)}; \
	ccache=$$(command -v ccache || true); \
	cmake --preset $(PRESET) -DSWIVEL_LLAMA_ROOT="$$root" $${ccache:+-DCMAKE_CXX_COMPILER_LAUNCHER=ccache} && \
	cmake --build --preset $(PRESET)

demo: build ## compress a small model's cache, show what it costs, and how to use it in llama-server
	@tools/demo $(build)

# The programs, the model and the prebuilt hosts first: a test must not spend its time limit on a download. Status 77 of tools/host: this
# machine cannot run that host, so its tests are skipped and say so. The cross compiler and the emulator are for the AArch64 kernels, the browser
# is for the pages.
test: build ## everything that runs without a network once it ran with one
	@if [ "$$(uname -m)" = x86_64 ]; then tools/setup g++-aarch64-linux-gnu qemu-user-static chromium; fi
	@tools/llama --tools > /dev/null
	@host() { tools/host "$$1" || [ $$? = 77 ]; }; \
	export SWIVEL_MODEL_S=$$(tools/model S) SWIVEL_HOST_SKULK=$$(host skulk) SWIVEL_HOST_PY_SYNC=$$(host py-sync) \
	  SWIVEL_HOST_XLLAMACPP=$$(host xllamacpp); \
	ctest --preset $(PRESET)

# Gigabytes of models, and half an hour: not part of `make test`, which checks one model.
test-models: build ## what the presets promise, on all four models
	@export SWIVEL_MODEL_S=$$(tools/model S) SWIVEL_MODEL_G=$$(tools/model G) SWIVEL_MODEL_Q=$$(tools/model Q) SWIVEL_MODEL_C=$$(tools/model C) \
	  SWIVEL_TEXT=$$(tools/text); \
	ctest --preset $(PRESET) -V -R '^presets$$'

bench: build ## run the benchmark programs, one after the other
	@shopt -s nullglob; \
	for program in $(build)/bin/*_bench; do echo "== $${program##*/}"; "$$program"; done

format: ## clang-format what git tracks
	@tools/setup clang-format
	@git ls-files -z '*.h' '*.cc' '*.cpp' '*.cu' | xargs -0 -r clang-format -i

clean: ## remove build/; what was downloaded stays in the cache folder
	rm -rf build
