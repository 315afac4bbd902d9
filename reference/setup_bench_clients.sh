#!/usr/bin/env bash
# Makes target/reference-clients: the reference's serving clients, unmodified, and what they import.
# With it crates/bench/tests/side_by_side.rs compares them with ours; without it that test says so.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=target/reference-clients
if [ -e "$folder/ready" ]; then
  exit 0
fi
rm -rf "$folder"
mkdir -p "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet \
  aiohttp==3.14.5 numpy==2.4.6 requests==2.34.2 tqdm==4.70.1 transformers==5.22.2 \
  pillow==13.0.0 pybase64 orjson msgspec jinja2
for release in 0.5.6.post2 0.5.23; do
  "$folder/venv/bin/pip" download --quiet --no-deps --dest "$folder/wheels" "sglang==$release"
  "$folder/venv/bin/python" - "$folder" "$release" <<'PYTHON'
import pathlib, sys, zipfile
folder, release = pathlib.Path(sys.argv[1]), sys.argv[2]
(wheel,) = (folder / "wheels").glob(f"sglang-{release}-*.whl")
wanted = ("sglang/bench_serving.py", "sglang/benchmark/", f"sglang-{release}.dist-info/")
with zipfile.ZipFile(wheel) as archive:
    names = [name for name in archive.namelist() if name.startswith(wanted)]
    archive.extractall(folder / release, names)
PYTHON
done
rm -rf "$folder/wheels"
touch "$folder/ready"
