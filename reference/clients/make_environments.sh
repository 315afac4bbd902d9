#!/usr/bin/env bash
# Makes an interpreter for each release of the reference's benchmark client, as the package is published:
#
#   make_environments.sh FOLDER TORCH
#
# TORCH is a folder made by tools/torch-cpu/setup.sh of the shared material: the client imports torch
# and uses none of it. The interpreters are FOLDER/0.5.6.post2/python and FOLDER/0.5.23/python.
set -euo pipefail
folder=$(realpath -m "$1") torch=$(realpath "$2")
borrowed=$("$torch/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')

# The release, what it is installed with, and what of that must not bring its own requirements.
make_environment() {
  local release=$1 packages=$2 alone=$3 home=$folder/$1
  python3 -m venv "$home"
  # shellcheck disable=SC2086 # lists of words
  "$home/bin/pip" install --quiet $packages
  # shellcheck disable=SC2086
  "$home/bin/pip" install --quiet --no-deps "sglang==$release" $alone
  local site
  site=$("$home/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  echo "$borrowed" > "$site/borrowed.pth"
  cat > "$home/python" <<RUN
#!/usr/bin/env bash
export LD_LIBRARY_PATH=$borrowed/nvidia/stubs/lib:$borrowed/nvidia/cu13/lib:\${LD_LIBRARY_PATH:-}
exec "$home/bin/python" "\$@"
RUN
  chmod +x "$home/python"
  "$home/python" -m sglang.bench_serving --help > /dev/null
  echo "$home/python"
}

client="aiohttp numpy requests tqdm pybase64 pillow datasets msgspec orjson pydantic psutil ipython"
client+=" polars"
make_environment 0.5.6.post2 "$client transformers==4.57.1 huggingface_hub<1" ""
# importing the newer package imports its server
server="triton apache-tvm-ffi starlette pyzmq einops fastapi uvicorn uvloop partial_json_parser"
server+=" openai==2.8.0 setproctitle tiktoken interegular loguru python-multipart python-dateutil<3"
server+=" cloudpickle xxhash"
make_environment 0.5.23 "$client $server transformers==5.19.0" \
  "torchvision==0.29.2 compressed-tensors==0.18.0 timm==1.0.25 xgrammar==0.2.7"
