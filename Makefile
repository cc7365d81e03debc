# exl2: `make demo` shows what it does, `make test` checks it. Both need Go and
# make, and fetch Go modules on the first run.

GO ?= go
export CGO_ENABLED = 0

.PHONY: all demo test test-gpu lint fuzz generate kernels clean

all: exl2

exl2: FORCE
	$(GO) build -trimpath -o $@ ./cmd/exl2
FORCE:

demo: exl2
	scripts/demo.sh

test:
	$(GO) test -timeout 60m ./...

# Test binaries for a machine with a GPU, which needs no Go but a checkout of this
# repository: `sh build/gpu/run-tests.sh` runs them there, from any folder, or with
# REPOSITORY=/path where build/gpu lies elsewhere.
test-gpu:
	mkdir -p build/gpu
	$(GO) test -c -trimpath -o build/gpu/cuda.test ./cuda
	$(GO) test -c -trimpath -o build/gpu/infer.test ./infer
	$(GO) test -c -trimpath -o build/gpu/convert.test ./convert
	cp cuda/run-tests.sh build/gpu

# Formatting, vet, staticcheck, and the floor plan (internal/floorplan).
lint:
	scripts/lint.sh

# A minute for each fuzz target.
fuzz:
	scripts/fuzz.sh

generate:
	$(GO) generate ./...

# The launchers of the CUDA kernels, and cuda/bin where sources have changed.
# The compiler, NVRTC, comes in Python wheels.
kernels: build/nvrtc/nvidia
	$(GO) generate ./cuda
	$(GO) run ./scripts/kernels

build/nvrtc/nvidia:
	python3 -m pip install --quiet --no-deps --target build/nvrtc \
		nvidia-cuda-nvrtc-cu12==12.9.86 nvidia-cuda-nvcc-cu12==12.9.86 \
		nvidia-cuda-runtime-cu12==12.9.79 nvidia-cuda-cccl-cu12==12.9.27

clean:
	rm -rf exl2 build
