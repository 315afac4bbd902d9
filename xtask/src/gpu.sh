#!/usr/bin/env bash
# Runs what `cargo xtask gpu` built, on a machine with a GPU; each part by itself, so that one that hangs stops nothing.
# Logs go to $OUT when it is set, and the end of each is printed.
set -u
cd "$(dirname "$0")"
out=${OUT:-/tmp/peregrine-gpu}
mkdir -p "$out"

libraries=()
for folder in /opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib /usr/local/cuda*/lib64 /usr/local/nvidia/lib*; do
  [ -d "$folder" ] && libraries+=(--libraries "$folder")
done

part() {
  local name=$1 limit=$2
  shift 2
  local began=$SECONDS
  timeout "$limit" "$@" >"$out/$name.log" 2>&1
  local code=$?
  printf '%-22s exit %3d, %3d s\n' "$name" "$code" $((SECONDS - began)) | tee -a "$out/summary.log"
}

check() {
  part conformance 60 ./prove "${libraries[@]}" conformance
  part attention-check 40 ./prove "${libraries[@]}" attention-conformance narrow
  part graphs 30 ./prove "${libraries[@]}" graphs invariance
}

sanitize() {
  part memcheck 100 compute-sanitizer --tool memcheck ./prove "${libraries[@]}" conformance
  part racecheck 100 compute-sanitizer --tool racecheck ./prove "${libraries[@]}" conformance
}

time_all() {
  part small 40 ./prove "${libraries[@]}" small
  part attention 60 ./prove "${libraries[@]}" attention
  part products 60 ./prove "${libraries[@]}" products
  part layers 60 ./prove "${libraries[@]}" layers
}

goldens() {
  part goldens 60 ./gpu_goldens goldens "${libraries[@]}"
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv,noheader
: >"$out/summary.log"
[ $# -eq 0 ] && set -- check time goldens sanitize
for word in "$@"; do
  case $word in
    check) check ;;
    sanitize) sanitize ;;
    time) time_all ;;
    goldens) goldens ;;
    *) echo "no part $word" ;;
  esac
done
for log in "$out"/*.log; do
  echo "---- $(basename "$log")"
  tail -n 60 "$log" | cut -c1-220
done
