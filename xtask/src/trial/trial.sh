#!/usr/bin/env bash
# Everything a server on a GPU must do besides being fast, tried with the real binary: answers, flags, memory, failures,
# traces, the laboratory. Prints a line for each item, `item: clean …` or `item: WRONG why`; ends with 1 when one is wrong.
#   trial.sh            all parts
#   trial.sh PART…      some of: answers flags backends devices memory formats profile laboratory loss
# GGUF names the model (a Llama with Q4_1, Q8_0 and F32 tensors; trial/model.gguf by itself). DEVICE=cpu tries the trial
# where there is no GPU. Logs and reports go to $OUT.
set -u
here=$(cd "$(dirname "$0")" && pwd)
peregrine=${PEREGRINE:-$here/../peregrine}
gguf=${GGUF:-$here/model.gguf}
goldens=${GOLDENS:-$here/../ops/goldens}
export DEVICE=${DEVICE:-cuda}
out=${OUT:-/tmp/peregrine-trial}
work=$(mktemp -d)
mkdir -p "$out"
. "$here/../server.sh"
: >"$out/trial.txt"
trap 'kill "${pid[@]}" 2>/dev/null; wait 2>/dev/null; tar czf "$out/logs.tgz" -C "$work" --exclude=folder --exclude="*.so" .; rm -rf "$work"' EXIT

# a server that takes little and starts quickly; what follows wins
small=(--random-seed 1 --max-total-tokens 16384 --max-running-requests 32 --chunked-prefill-size 2048 --cuda-graph-max-bs 8)
exact=(--device cpu --cpu-activations exact --threads $((($(nproc) + 2) / 3)))
# how far log-probabilities may be apart: activations of eight bits of mantissa, then also weights or keys of four
near=0.4
nearer=0.1
coarse=1.0
# the difference that every message about memory has
short=", [0-9.]+ [kMGT]?B too little; "
port=${PORT:-30100}
declare -A pid=() at=()
with=()
latest=

clean() { echo "$1: clean${2:+: $2}" | tee -a "$out/trial.txt"; }
wrong() { echo "$1: WRONG $2" | tee -a "$out/trial.txt"; }
ask() { python3 "$here/trial.py" "$@" 2>&1; }
last_words() { grep -vE "^\s*$" "$work/$1.log" | tail -2 | cut -c1-400 | tr '\n' ' '; }

# up NAME FLAGS…: a server in the background, in the environment `with`
up() {
  local name=$1
  shift
  port=$((port + 1))
  at[$name]=$port
  launch "$work/$name.log" env "${with[@]}" "$peregrine" serve --port "$port" "$@"
  pid[$name]=$launched
}

# a small one of the model on the device under trial, once the one before serves or has ended: servers that time their ways
# beside each other may settle on different ones
serve() {
  local name=$1
  shift
  [ -n "$latest" ] && [ -n "${pid[$latest]:-}" ] && ready "$latest"
  latest=$name
  up "$name" --model-path "$gguf" --device "$DEVICE" "${small[@]}" "$@"
}

# waits until it serves or has ended
ready() { wait_ready "${pid[$1]}" "$work/$1.log" 60; }

# ends it; sets code
down() {
  finish "${pid[$1]}"
  unset "pid[$1]"
}

# judge ITEM NAME EXPECTED TOLERANCE: the answers of a server that is ready against those of another
judge() {
  local item=$1 name=$2 expected=$3 tolerance=$4 text
  if ! ready "$name"; then
    wrong "$item" "did not start: $(last_words "$name")"
  elif text=$(ask answers "${at[$name]}" "$work/$name.json" && ask compare "$expected" "$work/$name.json" "$tolerance"); then
    clean "$item" "$text${5:+; $5}"
  else
    wrong "$item" "$text"
  fi
}

# told ITEM NAME PATH EXPECTED: what /server_info says
told() {
  local found
  found=$(ask info "${at[$2]}" "$3")
  [ "$found" = "$4" ] && clean "$1" "$3 is $found" || wrong "$1" "$3 is $found and not $4"
}

# said ITEM NAME PATTERN: a line of the log
said() {
  local line
  line=$(grep -m1 -E -- "$3" "$work/$2.log")
  [ -n "$line" ] && clean "$1" "$(echo "$line" | cut -c1-330)" || wrong "$1" "the log does not say /$3/: $(last_words "$2")"
}

# refused ITEM NAME PATTERN…: it ends with 2 and says all of this
refused() {
  local item=$1 name=$2 code pattern
  shift 2
  if ready "$name"; then
    down "$name"
    wrong "$item" "serves"
    return
  fi
  if kill -KILL "${pid[$name]}" 2>/dev/null; then
    wait "${pid[$name]}"
    unset "pid[$name]"
    wrong "$item" "neither serves nor ends: $(last_words "$name")"
    return
  fi
  wait "${pid[$name]}"
  code=$?
  unset "pid[$name]"
  [ $code -eq 2 ] || { wrong "$item" "exit $code: $(last_words "$name")" && return; }
  for pattern in "$@"; do
    grep -qE -- "$pattern" "$work/$name.log" || { wrong "$item" "does not say /$pattern/: $(last_words "$name")" && return; }
  done
  clean "$item" "$(grep -m1 "^error:" "$work/$name.log" | cut -c1-420)"
}

on_gpu() { [ "$DEVICE" = cuda ]; }

# a real checkpoint in both formats, and with eight-bit floats, against the CPU engine with full activations
answers() {
  local text
  up exact --model-path "$gguf" "${exact[@]}" "${small[@]}"
  serve gguf
  text=$(ask folder "$gguf" "$work/folder") || wrong "safetensors folder" "$text"
  local folder=(--model-path "$work/folder" --tokenizer-path "$gguf" "${small[@]}")
  up safetensors "${folder[@]}" --device "$DEVICE"
  up fp8 "${folder[@]}" --device "$DEVICE" --quantization fp8
  up fp8-exact "${folder[@]}" "${exact[@]}" --quantization fp8
  serve fp8-gguf --quantization fp8
  serve kv8 --kv-cache-dtype fp8_e4m3
  ready exact && ask answers "${at[exact]}" "$work/exact.json"
  judge "GGUF checkpoint beside the CPU engine" gguf "$work/exact.json" $near
  judge "safetensors checkpoint beside the CPU engine" safetensors "$work/exact.json" $near "$text"
  said "loading is told" safetensors "weights loaded in .* of files at"
  [ -e "$work/safetensors.json" ] && ask compare "$work/gguf.json" "$work/safetensors.json" $nearer >"$work/both" &&
    clean "safetensors beside GGUF" "$(cat "$work/both")" || wrong "safetensors beside GGUF" "$(cat "$work/both")"
  ready fp8-exact && ask answers "${at[fp8-exact]}" "$work/fp8-exact.json"
  judge "--quantization fp8 beside the CPU engine's" fp8 "$work/fp8-exact.json" $coarse
  told "--quantization fp8 is told" fp8 quantization '"fp8"'
  clean "--quantization fp8 takes" "$(ask info "${at[fp8]}" internal_states.0.memory_usage.weight) GiB of weights, bf16 \
$(ask info "${at[safetensors]}" internal_states.0.memory_usage.weight)"
  judge "--quantization fp8 of what is quantised already" fp8-gguf "$work/gguf.json" $nearer
  said "--quantization fp8 of what is quantised already is told" fp8-gguf "projections are quantised already, and not a second time"
  judge "--kv-cache-dtype fp8_e4m3" kv8 "$work/exact.json" $coarse
  if on_gpu; then told "--kv-cache-dtype is told" kv8 kv_cache_dtype '"F8_E4M3"'; fi
  for name in exact safetensors fp8 fp8-exact fp8-gguf kv8; do
    down $name
    [ $code -eq 0 ] || wrong "ending $name" "exit $code"
  done
}

# expects the answers of `gguf`
need_answers() {
  [ -e "$work/gguf.json" ] && return
  serve gguf
  ready gguf && ask answers "${at[gguf]}" "$work/gguf.json"
}

# each flag alone: it starts, answers as without it, and shows what it did
flags() {
  need_answers
  local dtype
  for dtype in float16 bfloat16 float32; do serve "dtype-$dtype" --dtype $dtype; done
  serve tokens --max-total-tokens 12345
  serve graphs --cuda-graph-max-bs 4
  serve eager --disable-cuda-graph
  serve in-turn --disable-overlap-schedule
  serve unfolded --fold-weights off
  for dtype in float16 bfloat16 float32; do
    judge "--dtype $dtype" "dtype-$dtype" "$work/gguf.json" $nearer
    if on_gpu; then told "--dtype $dtype is told" "dtype-$dtype" dtype '"bfloat16"'; fi
  done
  said "--dtype float16 is mapped" dtype-float16 "--dtype accepted, no effect: activations are"
  judge "--max-total-tokens" tokens "$work/gguf.json" $nearer
  if on_gpu; then told "--max-total-tokens is told" tokens max_total_num_tokens 12288; fi
  judge "--cuda-graph-max-bs" graphs "$work/gguf.json" $nearer
  judge "--disable-cuda-graph" eager "$work/gguf.json" $nearer
  judge "--disable-overlap-schedule" in-turn "$work/gguf.json" $nearer
  told "--disable-overlap-schedule is told" in-turn run_ahead 1
  judge "--fold-weights off" unfolded "$work/gguf.json" $nearer
  if on_gpu; then
    told "--fold-weights off is told" unfolded fold_weights '"off"'
    told "weights are folded without a flag" gguf fold_weights '"on"'
    told "--cuda-graph-max-bs is told" graphs cuda_graph_bs '[1,2,4]'
    told "--disable-cuda-graph is told" eager cuda_graph_bs '"none"'
    told "graphs without a flag" gguf cuda_graph_bs '[1,2,4,8]'
    clean "graphs take" "$(ask info "${at[gguf]}" internal_states.0.memory_usage) GiB"
  fi
  for name in dtype-float16 dtype-bfloat16 dtype-float32 tokens graphs eager in-turn unfolded; do down $name; done
  # the cache by share of memory, without other servers that take some
  down gguf
  local bare=(--model-path "$gguf" --device "$DEVICE") third half
  up third "${bare[@]}" --mem-fraction-static 0.3
  ready third && third=$(ask info "${at[third]}" max_total_num_tokens) && down third
  up half "${bare[@]}" --mem-fraction-static 0.6
  ready half && half=$(ask info "${at[half]}" max_total_num_tokens) && down half
  if on_gpu; then
    [ "${third:-0}" -gt 0 ] && [ "${half:-0}" -gt $((third * 19 / 10)) ] &&
      clean "--mem-fraction-static" "0.3 gives $third tokens, 0.6 gives $half" ||
      wrong "--mem-fraction-static" "0.3 gives ${third:-nothing}, 0.6 gives ${half:-nothing}"
  fi
}

# every name that SGLang knows
backends() {
  need_answers
  local names name text count=0 bad=0
  names=${BACKENDS:-$("$peregrine" serve --attention-backend nothing 2>&1 | grep -o "choose from.*" | grep -oE "[a-z0-9_]+" | grep -vE "^(choose|from)$")}
  for name in $names; do
    serve "by-$name" --attention-backend "$name"
    text=$(ready "by-$name" && ask answers "${at[by-$name]}" "$work/by-$name.json" &&
      ask compare "$work/gguf.json" "$work/by-$name.json" $nearer &&
      ask info "${at[by-$name]}" accepted_without_effect | grep -o "every name is mapped") ||
      { wrong "--attention-backend $name" "$text $(last_words "by-$name")" && bad=$((bad + 1)); }
    down "by-$name"
    count=$((count + 1))
  done
  [ $bad -eq 0 ] && [ $count -gt 0 ] && clean "--attention-backend" "$count names: $(echo $names)" || wrong "--attention-backend" "$bad of $count"
}

# --device, with the driver there and hidden
devices() {
  need_answers
  local cpu=(--model-path "$gguf" "${small[@]}")
  up on-cpu "${cpu[@]}" --device cpu
  up auto "${cpu[@]}"
  with=(CUDA_VISIBLE_DEVICES=)
  up unseen "${cpu[@]}"
  up unseen-cuda "${cpu[@]}" --device cuda
  with=(LD_PRELOAD="$work/shim.so" TRIAL_HIDE=1)
  up hidden "${cpu[@]}"
  up hidden-cuda "${cpu[@]}" --device cuda
  with=()
  local name
  for name in on-cpu unseen hidden; do
    judge "a CPU serves ($name)" $name "$work/gguf.json" $near
    told "--device is told ($name)" $name device '"cpu"'
  done
  judge "--device auto" auto "$work/gguf.json" $near
  told "--device auto is told" auto device "\"$DEVICE\""
  said "auto says why it serves on the CPU (driver hidden)" hidden "the CPU is used: libcuda.so.1 was not found"
  if on_gpu; then
    said "auto says why it serves on the CPU (GPU hidden)" unseen "the CPU is used: the driver sees no GPU"
    refused "--device cuda without a GPU" unseen-cuda "--device cuda: the driver sees no GPU"
  fi
  refused "--device cuda without a driver" hidden-cuda "--device cuda: libcuda.so.1 was not found"
  for name in on-cpu auto unseen hidden; do down $name; done
  [ -n "${pid[unseen-cuda]:-}" ] && down unseen-cuda
}

# memory that is short: named with the difference and the knob
memory() {
  local bare=(--model-path "$gguf" --device "$DEVICE" --random-seed 1)
  mkdir -p "$work/large"
  cat >"$work/large/config.json" <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 12288, "intermediate_size": 49152,
 "num_hidden_layers": 96, "num_attention_heads": 96, "num_key_value_heads": 8, "vocab_size": 128256,
 "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu"}
JSON
  up many "${bare[@]}" --max-total-tokens 100000000
  up large --model-path "$work/large" --load-format dummy --skip-tokenizer-init --device "$DEVICE"
  refused "a model that is too large" large "$short" "take a smaller (model, or --quantization fp8|or more strongly quantised model)"
  if ready many; then
    said "--max-total-tokens 100000000" many "100000000 tokens need .* too much; [0-9]+ fit and are used"
    down many
  else
    wrong "--max-total-tokens 100000000" "$(last_words many)"
  fi
  on_gpu || return
  held 3000 "--mem-fraction-static 0.99 where 3 GB are left" "--mem-fraction-static 0.99"
  held 3000 "--mem-fraction-static 0.5 where 3 GB are left" "--mem-fraction-static 0.5"
  held 700 "700 MB left by another program" ""
}

# held MIB ITEM FLAGS: a server beside a program that has taken the memory; it serves or says what is short
held() {
  local mib=$1 item=$2 holder
  coproc HOLDER { python3 "$here/trial.py" hold "$mib"; }
  holder=$HOLDER_PID
  read -r line <&"${HOLDER[0]}"
  [[ $line == held* ]] || { wrong "$item" "no memory could be held: $line" && return; }
  # shellcheck disable=SC2086
  up held "${bare[@]}" $3
  if ready held; then
    ask answers "${at[held]}" "$work/held.json" >/dev/null
    clean "$item" "$line; serves: $(grep -m1 -o "max_total_num_tokens=[0-9]*" "$work/held.log")"
    down held
  else
    # what is short, and by how much where anybody knows; then what to do, which is never to give up the GPU
    refused "$item" held "$short|the driver does not say how much is missing" \
      "; (raise|lower) --(mem-fraction-static|chunked-prefill-size|cuda-graph-max-bs)|; give --fold-weights off|(; |, or )stop what else uses the device"
  fi
  kill "$holder" 2>/dev/null
  wait "$holder" 2>/dev/null
}

# tiny checkpoints with every block format of GGUF and every scale of eight-bit floats, beside the CPU engine
formats() {
  local folder name path batch=()
  for folder in "$goldens"/gguf-* "$goldens"/fp8-*; do
    name=$(basename "$folder")
    path=$folder
    [ -e "$folder/model.gguf" ] && path=$folder/model.gguf
    up "$name" --model-path "$path" --skip-tokenizer-init --device "$DEVICE" "${small[@]}"
    up "$name-exact" --model-path "$path" --skip-tokenizer-init "${exact[@]}" --threads 1 "${small[@]}"
    batch+=("$name")
  done
  for name in "${batch[@]}"; do
    if ready "$name" && ready "$name-exact" && text=$(ask answers "${at[$name]}" "$work/$name.json" 97 &&
      ask answers "${at[$name-exact]}" "$work/$name-exact.json" 97 && ask compare "$work/$name-exact.json" "$work/$name.json" $near); then
      clean "format of $name" "$text"
    else
      wrong "format of $name" "${text:-} $(last_words "$name")"
    fi
    down "$name"
    down "$name-exact"
  done
}

# a trace with kernels, and decode steps beside their floor
profile() {
  local text
  serve profiled --decode-log-interval 20 --max-running-requests 16 --cuda-graph-max-bs 16 --profile-dir "$out/trace"
  if ! ready profiled; then wrong "trace" "$(last_words profiled)" && return; fi
  text=$(ask trace "${at[profiled]}" "$out/trace" "$work/profiled.log") && clean "trace" "$text" || wrong "trace" "$text"
  gzip -f "$out"/trace/*.trace.json 2>/dev/null
  if on_gpu; then
    said "measured and floor in the log" profiled "Decode steps, measured: .* floor: .* floor/measured:"
    text=$(ask info "${at[profiled]}" internal_states.0.step_times.decode internal_states.0.step_times.floor)
    [[ $text =~ floor_over_measured\":0\. ]] && clean "measured and floor in /server_info" "$text" || wrong "measured and floor in /server_info" "$text"
  fi
  down profiled
}

# two configurations, three repeats, in turns, with the GPU watched
laboratory() {
  local load=${LOAD:-"384 256"} text
  mkdir -p "$work/lab"
  sed -e "s#MODEL#$gguf#g; s#FLAGS#--device $DEVICE#g; s#REQUESTS#${load% *}#; s#LENGTH#${load#* }#" "$here/matrix.toml" >"$work/lab/plan.toml"
  (cd "$work/lab" && "$peregrine" lab run plan.toml) >"$out/lab.log" 2>&1 && clean "lab run" "$(grep -c '' "$out/lab.log") lines" ||
    { wrong "lab run" "$(tail -3 "$out/lab.log" | tr '\n' ' ')" && return; }
  (cd "$work/lab" && "$peregrine" lab report --title "Trial" --markdown "$out/report.md" --html "$out/report.html" --metric \
    output_throughput mean_itl_ms gpu_clock_mhz gpu_power_w gpu_temperature_c gpu_held_down energy_per_token_j) >"$work/report.log" 2>&1 ||
    wrong "lab report" "$(tail -2 "$work/report.log")"
  cp "$(find "$work/lab" -name accelerators.csv | head -1)" "$out/accelerators.csv" 2>/dev/null
  on_gpu || return
  text=
  for word in "NVIDIA" "driver" "GPU clock [0-9]* MHz, power [0-9]* W, [0-9]* °C at most, clocks held down in" gpu_power_w; do
    grep -q "$word" "$out/report.md" && grep -q "$word" "$out/report.html" || text="$text \"$word\""
  done
  [ -z "$text" ] && clean "lab report names GPU, clocks, power, temperature and throttling" \
    "$(grep -m1 -o "NVIDIA[^;]*" "$out/report.md"); $(grep -m1 "GPU clock " "$out/report.md")" ||
    wrong "lab report" "says nothing of$text"
}

# a kernel that writes where it may not, while requests run
loss() {
  on_gpu || return
  local text
  with=(LD_PRELOAD="$work/shim.so" TRIAL_LOSE="$work/lose-now")
  serve lost --max-total-tokens 65536
  with=()
  if ! ready lost; then wrong "a lost device" "$(last_words lost)" && return; fi
  text=$(ask lose "${at[lost]}" "$work/lose-now") && clean "a lost device fails requests and turns health to 503" "$text" ||
    wrong "a lost device" "$text"
  wait "${pid[lost]}"
  code=$?
  unset "pid[lost]"
  [ $code -ne 0 ] && [ $code -lt 128 ] && clean "a lost device ends the process" "exit $code" || wrong "a lost device ends the process" "exit $code"
  said "a lost device is named in the log" lost "device was lost"
  grep -h "^shim:" "$work/lost.log"
}

"$(command -v cc || command -v gcc)" -shared -fPIC -O1 -o "$work/shim.so" "$here/shim.c" -ldl || wrong "shim" "cannot be compiled"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,temperature.gpu,power.draw --format=csv,noheader 2>/dev/null
[ $# -eq 0 ] && set -- answers flags backends devices memory formats profile laboratory loss
for part in "$@"; do
  began=$SECONDS
  case $part in
    answers | flags | backends | devices | memory | formats | profile | laboratory | loss) "$part" ;;
    *) wrong "$part" "is no part" ;;
  esac
  echo "-- $part took $((SECONDS - began)) s"
done
echo "$(grep -c ": clean" "$out/trial.txt") items clean, $(grep -c ": WRONG" "$out/trial.txt") wrong"
! grep -q ": WRONG" "$out/trial.txt"
