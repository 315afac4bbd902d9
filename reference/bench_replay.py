"""Feeds one made-up event log through the reference's own request functions and arithmetic.

    python bench_replay.py DATA FOLDER…

The log (DATA/replay.json) says when each request was sent and when each line of its answer arrived. The
reference reads it through its unmodified parsers, with the clock and the connection stood in for; its
figures, as exact floats, go to DATA/replay-RELEASE.json for crates/bench to equal bit for bit.
"""

import asyncio
import dataclasses
import importlib
import json
import random
import subprocess
import sys
import types
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import bench_client

WORDS = [" the", " falcon", " rises", " 😀", "\n", " naïve", " \"wind\"", " over", " water", "", " and"]


def make_log():
    draw = random.Random("replay")
    log = {}
    for backend in ("sglang", "sglang-oai", "sglang-oai-chat"):
        requests = []
        for number in range(14):
            now = draw.randrange(0, 4_000_000_000)
            request = {"sent": now, "prompt_tokens": draw.randint(1, 90), "output_tokens": draw.randint(1, 40)}
            events = draw.choice([1, 1, 2, 5, 17, 30])
            lines, text, tokens = [], "", 0
            for event in range(events):
                now += draw.choice([0, 137, 900_001, 12_345_678, 250_000_019])
                piece = draw.choice(WORDS)
                tokens += draw.choice([0, 1, 1, 1, 2, 4])
                text += piece
                lines.append([now, line_of(backend, piece, text, tokens, draw, event == events - 1)])
            now += draw.choice([0, 55_555, 3_000_000])
            lines.append([now, "data: [DONE]"])
            request["lines"] = lines
            if number % 7 == 6:
                request["status"] = 503
            requests.append(request)
        log[backend] = requests
    return log


def line_of(backend, piece, text, tokens, draw, last):
    usage = {"prompt_tokens": 5, "completion_tokens": max(tokens, 1)} if draw.random() < 0.3 else None
    finish = "length" if last else None
    if backend == "sglang":
        meta = {"completion_tokens": tokens, "prompt_tokens": 5, "finish_reason": finish}
        event = {"text": text, "meta_info": meta}
    elif backend == "sglang-oai":
        event = {"choices": [{"text": piece, "finish_reason": finish}], "usage": usage if piece else None}
    else:
        event = {"choices": [{"delta": {"content": piece}, "finish_reason": finish}], "usage": usage}
    return "data: " + json.dumps(event, ensure_ascii=False)


class Clock:
    now = 0.0


class Content:
    def __init__(self, lines):
        self.lines = lines

    async def __aiter__(self):
        for at, line in self.lines:
            Clock.now = at / 1e9
            yield line.encode() + b"\n"


class Session:
    """A connection that yields the log's lines; used as `async with session.post(…) as response`."""

    def __init__(self, request):
        self.content = Content(request["lines"])
        self.status = request.get("status", 200)
        self.reason = "Service Unavailable"

    async def text(self):
        return "busy"

    def post(self, **_):
        return self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return False


def plain(value):
    value = float(value) if not isinstance(value, int) else value
    return value if isinstance(value, int) else value.hex()


def replay(folder, data):
    bench_client.prepare(folder)
    serving = importlib.import_module(bench_client.entry(folder))
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(data / "tokenizer"))
    clock = types.SimpleNamespace(perf_counter=lambda: Clock.now, time=lambda: 0.0)
    serving.time = clock
    serving.args = types.SimpleNamespace(
        disable_stream=False, disable_ignore_eos=False, return_logprob=False, print_requests=False,
        temperature=0.0, top_p=1.0, return_routed_experts=False, logprob_start_len=-1, top_logprobs_num=0,
        token_ids_logprob=None, cache_report=False, header=None,
    )
    log = json.loads((data / "replay.json").read_text())
    result = {}
    for backend, requests in log.items():
        function = serving.ASYNC_REQUEST_FUNCS[backend]
        path = {"sglang": "generate", "sglang-oai": "completions", "sglang-oai-chat": "chat/completions"}[backend]
        outputs, rows = [], []
        for request in requests:
            serving._create_bench_client_session = lambda request=request: Session(request)
            Clock.now = request["sent"] / 1e9
            given = serving.RequestFuncInput(
                prompt="p", api_url=f"http://h/{path}", prompt_len=request["prompt_tokens"],
                output_len=request["output_tokens"], model="m", lora_name=None, image_data=None,
                extra_request_body={},
            )
            outputs.append(asyncio.run(function(given)))
            rows.append(serving.DatasetRow(
                prompt="p", prompt_len=request["prompt_tokens"], output_len=request["output_tokens"]
            ))
        for accept in (None, 2.5):
            metrics, lengths = serving.calculate_metrics(rows, outputs, 12.5, tokenizer, backend, accept)
            figures = {name: plain(value) for name, value in dataclasses.asdict(metrics).items()}
            result[f"{backend} {accept}"] = {
                "figures": figures,
                "output_lens": lengths,
                "input_lens": [output.prompt_len for output in outputs],
                "errors": [output.error for output in outputs],
                "ttfts": [float(output.ttft).hex() for output in outputs],
            }
    return result


def main():
    data = Path(sys.argv[1])
    if sys.argv[2] == "--one":
        print(json.dumps(replay(sys.argv[3], data)))
        return
    (data / "replay.json").write_text(json.dumps(make_log(), ensure_ascii=False, separators=(",", ":")) + "\n")
    for folder in sys.argv[2:]:
        release = next(Path(folder).glob("sglang-*.dist-info")).name.split("-")[1].split(".dist")[0]
        command = [sys.executable, __file__, str(data), "--one", folder]
        result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        (data / f"replay-{release}.json").write_text(json.dumps(result, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
