#!/usr/bin/env bash
# Makes target/reference-clients: the reference's serving clients of two releases, unmodified, and
# target/python/bench-clients, what they import. With both, crates/bench/tests/side_by_side.rs
# compares them with ours; without them that test says that it is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=target/reference-clients
python=$(.ci/python-env bench-clients)
for release in 0.5.6.post2 0.5.23; do
  if [ -e "$folder/$release/ready" ]; then
    echo "   client of $release: ready"
    continue
  fi
  echo "   client of $release: fetching"
  rm -rf "${folder:?}/$release" "$folder/wheels"
  "$python" -m pip download --quiet --no-deps --dest "$folder/wheels" "sglang==$release"
  "$python" - "$folder" "$release" <<'PYTHON'
import pathlib, sys, zipfile
folder, release = pathlib.Path(sys.argv[1]), sys.argv[2]
(wheel,) = (folder / "wheels").glob(f"sglang-{release}-*.whl")
wanted = ("sglang/bench_serving.py", "sglang/benchmark/", f"sglang-{release}.dist-info/")
with zipfile.ZipFile(wheel) as archive:
    names = [name for name in archive.namelist() if name.startswith(wanted)]
    archive.extractall(folder / release, names)
PYTHON
  rm -rf "$folder/wheels"
  # last, so that what was broken off is fetched again
  touch "$folder/$release/ready"
done
