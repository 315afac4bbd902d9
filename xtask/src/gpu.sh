#!/usr/bin/env bash
# Runs what `cargo xtask gpu` built, on a machine with a GPU; each part by itself, so that one that hangs stops nothing.
# Everything goes to $OUT/all.log when OUT is set; a summary is printed last. Ends with 1 when a part did not end well.
set -u
cd "$(dirname "$0")"
out=${OUT:-/tmp/peregrine-gpu}
logs=$(mktemp -d)
mkdir -p "$out"

# CUDA's libraries as Python packages bring them, or as a toolkit does
packages=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
libraries=()
for folder in "$packages"/nvidia/*/lib /usr/local/cuda*/lib64 /usr/local/nvidia/lib*; do
  [ -d "$folder" ] && libraries+=(--libraries "$folder")
done

part() {
  local name=$1 limit=$2
  shift 2
  local began=$SECONDS
  timeout "$limit" "$@" >"$logs/$name" 2>&1
  local code=$?
  printf '%-16s exit %3d, %3d s\n' "$name" "$code" $((SECONDS - began)) >>"$logs/summary"
}

prove() {
  local name=$1 limit=$2
  shift 2
  part "$name" "$limit" ./prove "${libraries[@]}" "$@"
}

# not timed: side by side
check() {
  local numbers
  numbers=$(mktemp -d)
  prove conformance 60 conformance &
  prove attention-check 40 --narrow attention-conformance narrow &
  prove cache-fp8 60 --narrow cache-conformance &
  prove graphs 60 graphs invariance &
  prove gates 30 --own-gemms gates &
  prove split-k 60 --library-gemms split-k &
  prove collectives 60 collectives &
  prove bf12 60 --own-gemms bf12 conformance &
  part goldens 100 ./gpu_goldens goldens --logits "$numbers" "${libraries[@]}" &
  wait
  part transformers 60 python3 same_gpu.py goldens "$numbers"
  rm -rf "$numbers"
}

# kernels for GPUs that lack Hopper's instructions, on this one: its own code of them, or what its driver makes of their text
# where the pack is of `cargo xtask gpu --as-text`
ampere() {
  prove ampere 150 --ampere conformance attention-conformance graphs &
  prove ampere-fp8 150 --ampere --narrow cache-conformance attention-conformance &
  part ampere-goldens 100 ./gpu_goldens goldens --ampere "${libraries[@]}" &
  wait
  prove ampere-times 40 --ampere attention
}

# tools at once: none is timed
sanitize() {
  local tool
  for tool in memcheck racecheck; do
    part "$tool" 100 compute-sanitizer --print-limit 20000 --tool "$tool" ./prove "${libraries[@]}" --own-gemms --narrow sanitize &
    part "$tool-fp8" 100 compute-sanitizer --tool "$tool" ./prove "${libraries[@]}" --own-gemms sanitize-fp8 &
  done
  # racecheck takes longer than there is time for, and names linear_bf12_cluster_2x8 (docs/performance.md)
  part memcheck-bf12 100 compute-sanitizer --tool memcheck ./prove "${libraries[@]}" --own-gemms sanitize-bf12 &
  # racecheck is killed before the first of these has run, with 9 after 38 s
  part memcheck-gates 100 compute-sanitizer --tool memcheck ./prove "${libraries[@]}" --own-gemms gates &
  wait
  # hazards of kernels that are not the library's
  grep -h "access at" "$logs"/racecheck* | sed 's/.*access at //; s/+0x.*//' | grep -v nvjet | sort | uniq -c >"$logs/races"
}

# writes five gigabytes where files go
loading() {
  local folder
  folder=$(mktemp -d)
  part loading 60 ./gpu_goldens --loading "$folder" "${libraries[@]}"
  rm -rf "$folder"
}

profile() {
  part profile 40 ncu --clock-control none --kernel-name 'regex:attend_' --section SpeedOfLight --section WarpStateStats \
    ./prove "${libraries[@]}" profile
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv,noheader >"$logs/machine" 2>&1
[ $# -eq 0 ] && set -- check ampere attention decode layers gemms fp8 small loading sanitize
for word in "$@"; do
  case $word in
    check) check ;;
    ampere) ampere ;;
    sanitize) sanitize ;;
    loading) loading ;;
    profile) profile ;;
    small | attention | decode | gemms | firsts | few | mix | sustained | layers | kernels | prompts) prove "$word" 70 "$word" ;;
    candidates) prove candidates 40 --library-gemms candidates ;;
    fp8) prove fp8 120 fp8-conformance fp8 ;;
    fp8-layers | fp8-kernels) prove "$word" 40 --narrow "$word" ;;
    bf12-layers) prove bf12-layers 40 --bf12 layers ;;
    heads) prove heads 40 --bf12 heads ;;
    in-turn) prove in-turn 40 --in-turn layers ;;
    own) prove own 40 --own-gemms layers ;;
    library) prove library 40 --library-gemms layers ;;
    *) echo "no part $word" >>"$logs/summary" ;;
  esac
done
for log in "$logs"/*; do
  echo "---- $(basename "$log")"
  cat "$log"
done >"$out/all.log"
for log in machine firsts few mix sustained layers bf12-layers heads prompts fp8-layers kernels fp8-kernels candidates in-turn own library fp8 small loading attention decode conformance split-k cache-fp8 attention-check graphs collectives gates bf12 goldens transformers ampere ampere-fp8 ampere-goldens ampere-times memcheck memcheck-fp8 memcheck-bf12 memcheck-gates racecheck racecheck-fp8 races summary; do
  [ -e "$logs/$log" ] && echo "---- $log" && tail -n 32 "$logs/$log" | cut -c1-180
done
[ -s "$logs/summary" ] && ! grep -qv "exit   0," "$logs/summary"
