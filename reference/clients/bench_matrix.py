"""Runs the reference's serving benchmark, unmodified, against our server and judges each run.

    python bench_matrix.py --server BINARY --model FILE --tokenizer FOLDER --sharegpt FILE PYTHON…

Each PYTHON is an interpreter that can run `-m sglang.bench_serving`. For every one of them, every
backend and every dataset a fresh server is started, the client sends its requests, and a row of a
Markdown table is printed. Beside the client's own figures it has the server's counters, because the
client writes the requested length where an answer carries no usage.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

AS_IDS = "random-ids-as-ids"
DATASETS = ["random-ids", "sharegpt"]
BACKENDS = ["sglang", "sglang-oai", "sglang-oai-chat"]
READY = "The server is fired up and ready to roll!"
WARMUP_TOKENS = 32
HEAD = (
    "| client | backend | dataset | completed | input tokens: client, server with warm-up | "
    "output tokens: requested, client, server | verdict |\n|---|---|---|---|---|---|---|"
)


class Server:
    """Our server as a process on a port of its own choice."""

    def __init__(self, options, log):
        command = [options.server, "serve", "--model-path", options.model]
        command += ["--port", str(options.port), "--enable-metrics", *options.server_args]
        self.log = log
        with open(log, "w") as sink:
            self.process = subprocess.Popen(command, stdout=sink, stderr=sink)
        self.root = None

    def __enter__(self):
        while READY not in (text := Path(self.log).read_text()):
            if self.process.poll() is not None:
                sys.exit(f"the server ended:\n{text}")
            time.sleep(0.05)
        self.root = re.search(r"running on (http://\S+)", text).group(1)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        assert code == 0, f"the server ended with {code}"

    def counted(self):
        """Prompt and generated tokens so far."""
        with urllib.request.urlopen(f"{self.root}/metrics") as answer:
            text = answer.read().decode()
        names = ("prompt_tokens_total", "generation_tokens_total")
        pattern = r"^sglang:{}{{.*}} ([0-9.e+]+)$"
        return [int(float(re.search(pattern.format(n), text, re.M).group(1))) for n in names]


def words_of(options, dataset):
    """What the client is told about a dataset."""
    words = ["--num-prompts", str(options.num_prompts)]
    if dataset == "sharegpt":
        return [*words, "--dataset-name", "sharegpt", "--dataset-path", options.sharegpt]
    words += ["--dataset-name", "random-ids", "--random-range-ratio", "1"]
    words += ["--random-input-len", str(options.input_len)]
    words += ["--random-output-len", str(options.output_len)]
    return words + ["--tokenize-prompt"] * (dataset == AS_IDS)


def run(options, python, backend, words, server, folder):
    """One run of the client: its result line and what it printed."""
    result = Path(folder) / "result.jsonl"
    result.unlink(missing_ok=True)
    host, port = server.root.removeprefix("http://").split(":")
    command = [python, "-m", "sglang.bench_serving", "--backend", backend, "--host", host]
    command += ["--port", port, "--tokenizer", options.tokenizer, *words]
    command += ["--output-file", str(result), "--output-details", "--disable-tqdm"]
    # the model's name is no repository: nobody should look for one
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    print("$", " ".join(command), file=sys.stderr, flush=True)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        sys.exit(f"the client ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return json.loads(result.read_text()), done.stdout


def judge(options, dataset, line, printed, before, after):
    """The figures of a run and whether they are what was asked for."""
    asked_in = int(re.search(r"#Input tokens: (\d+)", printed).group(1))
    asked_out = int(re.search(r"#Output tokens: (\d+)", printed).group(1))
    server_in, server_out = (now - then for now, then in zip(after, before))
    failures = [error for error in line["errors"] if error]
    holds = {
        "completed": line["completed"] == options.num_prompts and not failures,
        "input": line["total_input_tokens"] == asked_in,
        "output": line["total_output_tokens"] == asked_out,
    }
    if dataset != "sharegpt":
        # newer clients keep what the server read: text of random ids has other tokens when read again
        read = sum(line["input_lens"]) + line["input_lens"][0] == server_in
        holds["input lengths"] = read or set(line["input_lens"]) == {options.input_len}
        holds["output lengths"] = set(line["output_lens"]) == {options.output_len}
    if dataset == AS_IDS:
        holds["server's input"] = server_in - options.input_len == asked_in
    warmup_out = min(line["output_lens"][0], WARMUP_TOKENS)
    holds["server's output"] = server_out - warmup_out == asked_out
    wrong = [name for name, right in holds.items() if not right]
    verdict = f"wrong: {', '.join(wrong)} {failures[:1]}" if wrong else "as requested"
    return (
        f"{line['completed']} of {options.num_prompts}",
        f"{line['total_input_tokens']}, {server_in}",
        f"{asked_out}, {line['total_output_tokens']}, {server_out - warmup_out}",
        verdict,
    )


def client_name(python):
    program = "from importlib.metadata import version; print(version('sglang'))"
    told = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    return told.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--server", required=True, help="our binary")
    parser.add_argument("--model", required=True)
    # the client runs in a folder of its own
    place = {"required": True, "type": os.path.abspath}
    parser.add_argument("--tokenizer", **place, help="a folder that transformers can load")
    parser.add_argument("--sharegpt", **place, help="conversations of two turns or more")
    parser.add_argument("--port", type=int, default=0, help="our server's; 0 is any free one")
    parser.add_argument("--num-prompts", type=int, default=200)
    parser.add_argument("--input-len", type=int, default=64)
    parser.add_argument("--output-len", type=int, default=32)
    parser.add_argument("--server-args", nargs="*", default=[])
    parser.add_argument("--client-args", default="", help="more words for every client, in one")
    parser.add_argument("--backends", nargs="*", default=BACKENDS)
    parser.add_argument("--datasets", nargs="*", default=DATASETS, choices=[*DATASETS, AS_IDS])
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    options = parser.parse_args()
    print(HEAD, flush=True)
    good = True
    for python in map(os.path.abspath, options.pythons):
        name = client_name(python)
        for backend in options.backends:
            for dataset in options.datasets:
                words = [*words_of(options, dataset), *options.client_args.split()]
                with tempfile.TemporaryDirectory() as folder:
                    with Server(options, f"{folder}/server.log") as server:
                        before = server.counted()
                        line, printed = run(options, python, backend, words, server, folder)
                        figures = judge(options, dataset, line, printed, before, server.counted())
                row = " | ".join([name, backend, dataset, *figures])
                print(f"| {row} |", flush=True)
                good &= figures[-1] == "as requested"
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
