#!/usr/bin/env bash
# Serving figures on a machine with a GPU, from what `cargo xtask gpu` built. Everything goes to $OUT when it is set.
#   serving.sh bench MODEL "REQUESTS AT-ONCE IN OUT"…   loads, one after the other
#   serving.sh repeat MODEL ["REQUESTS AT-ONCE IN OUT"]  the same load five times right after the start: no warm-up
#   serving.sh soak MODEL [SECONDS]                      mixed load with cancels: leaks, jitter, integrity
#   serving.sh trace MODEL ["REQUESTS AT-ONCE IN OUT"]   a Perfetto trace of 60 steps under load
# MODEL is a folder of carry/models; SERVE_FLAGS are added to those of the server.
set -u
here=$(cd "$(dirname "$0")" && pwd)
peregrine=$here/peregrine
out=${OUT:-/tmp/peregrine-serving}
port=${PORT:-30000}
mkdir -p "$out"
. "$here/server.sh"

seconds_since() { awk -v from="$1" -v to="$(date +%s.%N)" 'BEGIN { printf "%.2f", to - from }'; }

# start MODEL FLAGS…: the server in the background; sets server and log
start() {
  local model=$1 began
  shift
  log=$out/$model.server.log
  began=$(date +%s.%N)
  # a server that fell back to the CPU would be timed in vain
  # shellcheck disable=SC2086
  launch "$log" "$peregrine" serve --device cuda --model-path "$here/models/$model" --load-format dummy --context-length 4096 \
    --port "$port" "$@" ${SERVE_FLAGS:-}
  server=$launched
  if ! wait_ready "$server" "$log" 600; then
    echo "server is not ready" && tail -20 "$log"
    finish "$server"
    exit 1
  fi
  echo "== $model ready after $(seconds_since "$began") s"
  grep -E " opened in |weights loaded in |autotuning |graph end" "$log" | cut -c1-160
}

stop() {
  local code
  finish "$server"
  echo "server exit $code"
  grep -E "Decode batch|Decode steps" "$log" | tail -2
  grep -iE "error|panic" "$log" | head -5
}

# load MODEL NAME "REQUESTS AT-ONCE IN OUT"
load() {
  local model=$1 name=$2 before
  before=$(grep -c "Decode steps" "$log")
  # shellcheck disable=SC2086
  set -- $3
  echo "== $model: $1 requests, $2 at once, $3 in, $4 out"
  timeout 300 "$peregrine" bench serving --backend sglang --port "$port" --dataset-name random-ids --random-range-ratio 1 \
    --seed 1 --tokenize-prompt --num-prompts "$1" --max-concurrency "$2" --random-input-len "$3" --random-output-len "$4" \
    --tokenizer "$here/models/$model" --disable-tqdm --output-file "$out/$model-$name.jsonl" 2>"$out/$model-$name.err" |
    tee "$out/$model-$name.txt" | grep -E "throughput|Successful|duration|TTFT|TPOT|ITL|Failed"
  tail -2 "$out/$model-$name.err"
  grep "Decode steps" "$log" | tail -n "+$((before + 1))" | tr -d , | awk '
    { floor += $9 * $NF; measured += $6 * $NF; steps += $NF }
    END { if (steps) printf "%d decode steps, mean %.3f ms, %.1f %% of the floor\n", steps, measured / steps, 100 * floor / measured }'
}

bench() {
  local model=$1 word
  shift
  start "$model" --disable-radix-cache --decode-log-interval 200
  for word in "$@"; do load "$model" "$(echo "$word" | tr ' ' -)" "$word"; done
  stop
}

# the first load after the start must be as fast as the fifth, within 3 %
repeat() {
  local model=$1 word=${2:-"256 64 1024 256"} run
  start "$model" --disable-radix-cache --decode-log-interval 200
  for run in 1 2 3 4 5; do load "$model" "run$run" "$word"; done
  stop
  for run in 1 2 3 4 5; do
    awk -F: -v run="$run" '/Output token throughput/ { gsub(/[ \t]/, "", $2); print run, $2; exit }' "$out/$model-run$run.txt"
  done | awk '{ rate[$1] = $2; printf "run %d: %.1f output tokens/s\n", $1, $2 }
    END {
      if (!rate[1] || !rate[5]) { print "repeat: WRONG: a run has no figure"; exit 1 }
      apart = 100 * (rate[5] - rate[1]) / rate[5]
      printf "repeat: %s: the first is %.2f %% behind the fifth\n", (apart < 3 && apart > -3) ? "clean" : "WRONG", apart
      exit !(apart < 3 && apart > -3)
    }'
}

soak() {
  local model=$1 seconds=${2:-600} code
  start "$model" --decode-log-interval 1000
  "$here/soak" --port "$port" --pid "$server" --seconds "$seconds" | tee "$out/$model-soak.txt"
  code=${PIPESTATUS[0]}
  stop
  return "$code"
}

trace() {
  local model=$1 word=${2:-"64 64 1024 256"} began
  start "$model" --disable-radix-cache --decode-log-interval 200 --profile-dir "$out"
  load "$model" trace "$word" &
  began=$!
  sleep 2
  python3 - "$port" "$out" <<'PYTHON'
import json, sys, urllib.request
body = json.dumps({"output_dir": sys.argv[2], "num_steps": 60}).encode()
request = urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}/start_profile", body, {"Content-Type": "application/json"})
print(urllib.request.urlopen(request).read().decode().strip())
PYTHON
  wait "$began"
  until grep -qE "Traces are saved to|was not written" "$log" || ! kill -0 "$server" 2>/dev/null; do sleep 0.1; done
  grep -E "Traces are saved to|was not written" "$log"
  stop
  summary "$out"/*.trace.json
  gzip -f "$out"/*.trace.json
}

# summary TRACE: what kernels take of a step that only decodes, and how long the device has nothing to do
summary() {
  python3 - "$1" <<'PYTHON'
import json, statistics, sys
trace = json.load(open(sys.argv[1]))
spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
steps = [span for span in spans if span["tid"] == 2 and span["args"].get("prompts") == 0]
kernels = sorted((span for span in spans if span["tid"] >= 3), key=lambda span: span["ts"])
print("kernels:", trace["otherData"]["kernels"])
if not steps or not kernels:
    sys.exit("no step that only decodes, or no kernel")
begin, end = min(step["ts"] for step in steps), max(step["ts"] + step["dur"] for step in steps)
totals, busy, until = {}, 0.0, begin
for kernel in kernels:
    start, stop = max(kernel["ts"], until), kernel["ts"] + kernel["dur"]
    if kernel["ts"] < begin or stop > end:
        continue
    count, added = totals.get(kernel["name"], (0, 0.0))
    totals[kernel["name"]] = (count + 1, added + max(stop - start, 0.0))
    busy, until = busy + max(stop - start, 0.0), max(until, stop)
each = 1 / len(steps)
rows = statistics.median(step["args"]["rows"] for step in steps)
print(f"{len(steps)} steps of {rows:g} rows, {1e-3 * (end - begin) * each:.2f} ms each, {100 * busy / (end - begin):.1f} % of it in kernels")
for name, (count, added) in sorted(totals.items(), key=lambda item: -item[1][1])[:16]:
    print(f"{added * each:9.1f} us a step, {count * each:6.1f} times  {name[:90]}")
PYTHON
}

case ${1:-} in
  bench | repeat | soak | trace) "$@" ;;
  "") sed -n '2,7p' "$0" ;;
  *) bench "$@" ;;
esac
