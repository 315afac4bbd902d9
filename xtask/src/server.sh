# Starting a server, waiting for it and ending it, for scripts that read this file.

# launch LOG COMMAND…: in the background, what it says into a file; sets launched
launch() {
  local log=$1
  shift
  # now, or what an earlier server said there could still be read
  : >"$log"
  "$@" >"$log" 2>&1 &
  launched=$!
}

# serves LOG: whether it has said so
serves() { grep -qs "ready to roll" "$1"; }

# wait_ready PID LOG SECONDS: until it serves; 1 when it has ended before or takes longer
wait_ready() {
  local until=$((SECONDS + $3))
  until serves "$2"; do
    # it may have said so and ended since
    kill -0 "$1" 2>/dev/null || { serves "$2" && return || return 1; }
    [ $SECONDS -lt $until ] || return 1
    sleep 0.02
  done
}

# finish PID: ends it; sets code
finish() {
  kill -TERM "$1" 2>/dev/null
  wait "$1"
  code=$?
}
