"""What the trial asks a server, and how it judges the answers.

    trial.py answers PORT FILE [VOCABULARY]    greedy answers with log-probabilities; token ids instead of texts
    trial.py compare EXPECTED FOUND TOLERANCE  the same tokens, or near ties; log-probabilities that agree
    trial.py info PORT PATH…                   members of /server_info
    trial.py batch PORT                        twelve requests at once, all of which must be answered
    trial.py folder GGUF FOLDER                the weights of a GGUF file as bf16 safetensors
    trial.py trace PORT FOLDER LOG             a recording by /start_profile and /stop_profile
    trial.py hold MIB                          takes GPU memory until so much is left, and waits for standard input to close
    trial.py lose PORT FILE                    long requests, then FILE, after which the device is lost
"""

import concurrent.futures
import ctypes
import glob
import http.client
import json
import os
import random
import re
import sys
import threading
import time
import urllib.error
import urllib.request

PROMPTS = [
    "The capital of France is",
    "Water boils at a temperature of",
    "def fibonacci(n):\n    ",
    "Once upon a time, in a small village by the sea, there lived",
    "The three laws of thermodynamics say that energy",
    "Question: Which planet is the largest in our solar system? Answer:",
    "A recipe for pancakes: take two eggs, a cup of flour and",
    "In 1969 the first people landed on the moon. " * 12 + "After that",
]
TOKENS = 48


def post(port, path, body, timeout=60):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    return urllib.request.urlopen(request, timeout=timeout)


def get(port, path, timeout=20):
    return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=timeout)


def question(prompt, tokens=TOKENS):
    key = "text" if isinstance(prompt, str) else "input_ids"
    return {
        key: prompt,
        "sampling_params": {"temperature": 0, "max_new_tokens": tokens},
        "return_logprob": True,
        "logprob_start_len": 0,
        "top_logprobs_num": 5,
    }


def answers(port, file, vocabulary=None):
    prompts = PROMPTS
    if vocabulary:
        draw = random.Random(1)
        prompts = [[draw.randrange(int(vocabulary)) for _ in range(length)] for length in (1, 7, 24, 40)]
    found = []
    for prompt in prompts:
        answer = json.load(post(port, "/generate", question(prompt, TOKENS if not vocabulary else 8)))
        meta = answer["meta_info"]
        found.append({
            "text": answer.get("text"),
            "prompt": [entry[:2] for entry in meta["input_token_logprobs"]],
            "tokens": [entry[:2] for entry in meta["output_token_logprobs"]],
            "top": [[entry[:2] for entry in place] for place in meta["output_top_logprobs"]],
        })
    with open(file, "w") as out:
        json.dump(found, out)


def compare(expected, found, tolerance):
    tolerance = float(tolerance)
    expected, found = json.load(open(expected)), json.load(open(found))
    apart, equal, ties, wrong = [], 0, [], []
    for number, (want, have) in enumerate(zip(expected, found, strict=True)):
        if [token for _, token in want["prompt"]] != [token for _, token in have["prompt"]]:
            wrong.append(f"prompt {number} has other tokens")
            continue
        pairs = zip(want["prompt"], have["prompt"], strict=True)
        apart += [abs(ours[0] - theirs[0]) for ours, theirs in pairs if ours[0] is not None]
        for place, (ours, theirs) in enumerate(zip(want["tokens"], have["tokens"])):
            if ours[1] == theirs[1]:
                equal += 1
                apart.append(abs(ours[0] - theirs[0]))
                continue
            known = {token: value for value, token in want["top"][place]}
            behind = ours[0] - known.get(theirs[1], -1e9)
            ties.append(behind)
            if behind > 2 * tolerance:
                wrong.append(f"prompt {number}, token {place}: {theirs[1]} instead of {ours[1]}, {behind:.3f} behind")
            break
    largest, mean = max(apart, default=0.0), sum(apart) / max(len(apart), 1)
    if largest > tolerance or mean > tolerance / 8:
        wrong.append(f"log-probabilities may be {tolerance} apart and {tolerance / 8} on average")
    asked = sum(len(answer["tokens"]) for answer in expected)
    part = f"{len(ties)} of {len(expected)} answers part where the best are {max(ties):.3f} apart or less, " if ties else ""
    print(f"{equal} of {asked} tokens equal, {part}log-probabilities {mean:.4f} apart on average and {largest:.4f} at most", end="")
    if wrong:
        sys.exit("; " + "; ".join(wrong[:3]))


def member(value, path):
    for word in path.split("."):
        value = value[int(word)] if isinstance(value, list) else value.get(word)
    return value


def info(port, *paths):
    known = json.load(get(port, "/server_info"))
    print(*[json.dumps(member(known, path), separators=(",", ":")) for path in paths])


def batch(port):
    prompts = [PROMPTS[number % 7] for number in range(12)]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        asked = pool.map(lambda prompt: json.load(post(port, "/generate", question(prompt, 64))), prompts)
        lengths = [answer["meta_info"]["completion_tokens"] for answer in asked]
    if min(lengths) < 1:
        sys.exit(f"answers of {lengths} tokens")


def trace(port, folder, log):
    os.makedirs(folder, exist_ok=True)
    print(post(port, "/start_profile", {"output_dir": folder}).read().decode().strip(), end=" ")
    batch(port)
    print(post(port, "/stop_profile", {}).read().decode().strip(), end=" ")
    until = time.time() + 30
    while not any(line in open(log).read() for line in ("Traces are saved to", "was not written")):
        if time.time() > until:
            sys.exit("no trace after 30 s")
        time.sleep(0.05)
    found = glob.glob(f"{folder}/*.trace.json")
    if len(found) != 1:
        sys.exit(f"traces: {found}")
    recorded = json.load(open(found[0]))
    spans = [event for event in recorded["traceEvents"] if event["ph"] == "X"]
    names = {track: {span["name"] for span in spans if span["tid"] == track} for track in (1, 2)}
    kernels = {span["name"] for span in spans if span["tid"] >= 3}
    print(f"{len(spans)} spans; engine thread: {sorted(names[1])}; steps: {len([s for s in spans if s['tid'] == 2])}; "
          f"kernels: {recorded['otherData']['kernels']}, {len(kernels)} names, such as {sorted(kernels)[:4]}", end="")
    if not names[1] or not names[2] or (os.environ.get("DEVICE", "cuda") == "cuda" and len(kernels) < 5):
        sys.exit("; something is missing in the trace")


def open_driver():
    for folder in ("", "/usr/local/nvidia/lib64/", "/usr/lib/x86_64-linux-gnu/"):
        try:
            return ctypes.CDLL(f"{folder}libcuda.so.1")
        except OSError:
            pass
    sys.exit("no driver to hold memory with")


def hold(mib):
    driver = open_driver()
    device, context = ctypes.c_int(), ctypes.c_void_p()
    free, total, address = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
    calls = [
        driver.cuInit(0),
        driver.cuDeviceGet(ctypes.byref(device), 0),
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        driver.cuCtxSetCurrent(context),
        driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)),
    ]
    taken = max(free.value - (int(mib) << 20), 1)
    calls.append(driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(taken)))
    driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    print(f"held {taken >> 20} MiB, {free.value >> 20} MiB left, calls {calls}", flush=True)
    sys.stdin.read()


def lose(port, trigger):
    """Requests that run when the device goes, what /health says from then on, and until when there is an answer."""
    ends, healths = [], []

    def ask(streams):
        body = {"text": PROMPTS[3], "stream": streams}
        body["sampling_params"] = {"temperature": 0, "max_new_tokens": 7000, "ignore_eos": True}
        try:
            answer = post(port, "/generate", body)
            lines = [line.decode().strip() for line in answer]
            said = [line for line in lines if "lost" in line]
            ends.append(re.sub(r".*(\"finish_reason\": ?\{[^}]*\}).*", r"\1", said[-1] if said else str(lines[-2:])))
        except urllib.error.HTTPError as error:
            ends.append(f"status {error.code}: {error.read().decode()}")
        except (OSError, ValueError, http.client.HTTPException) as error:
            ends.append(f"broken off: {error}")

    def watch():
        while True:
            try:
                healths.append(get(port, "/health").status)
            except urllib.error.HTTPError as error:
                healths.append(error.code)
            except (OSError, http.client.HTTPException):
                return
            time.sleep(0.01)

    asking = [threading.Thread(target=ask, args=(number < 2,)) for number in range(4)]
    watching = threading.Thread(target=watch)
    for thread in (*asking, watching):
        thread.start()
    time.sleep(0.5)
    open(trigger, "w").close()
    for thread in (*asking, watching):
        thread.join(20)
    told = [end[:300] for end in ends if "lost" in end]
    print(f"health {healths.count(200)} times 200, then {healths.count(503)} times 503; {len(told)} of 4 requests were told: "
          f"{sorted(set(told))}", end="")
    if len(told) != 4 or 503 not in healths or healths[-1] != 503:
        sys.exit(f"; ends {ends}, healths end with {healths[-3:]}")


if __name__ == "__main__":
    # one line is enough for a verdict
    sys.excepthook = lambda kind, error, _: print(f"{kind.__name__}: {error}", file=sys.stderr)
    if sys.argv[1:2] == ["folder"]:
        import folder

        folder.write(*sys.argv[2:])
    elif len(sys.argv) < 3:
        sys.exit(__doc__)
    else:
        {call.__name__: call for call in (answers, compare, info, batch, trace, hold, lose)}[sys.argv[1]](*sys.argv[2:])
