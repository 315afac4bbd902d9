"""Makes the small dataset files of crates/bench/tests/data and what the reference makes of them.

    python bench_goldens.py DATA FOLDER…

DATA is the folder to write to; each FOLDER holds an unpacked sglang wheel. One golden file per release
lists the rows of every dataset: the digest of the prompt, its length, the length of its answer.
Needs numpy, transformers, tokenizers, requests, tqdm, aiohttp, pillow, pybase64, orjson, msgspec.
"""

import contextlib
import hashlib
import io
import json
import random
import subprocess
import sys
from pathlib import Path

WORDS = (
    "the falcon rises over quiet water and turns into the wind while we count every wing beat "
    "of a long day that begins with rain and ends in light; ships wait, engines hum, numbers add up, "
    "nobody knows why the server is slow but everyone has a theory about it"
).split()


def sentence(draw, words):
    text = " ".join(draw.choice(WORDS) for _ in range(words))
    return text[:1].upper() + text[1:] + draw.choice([".", "?", "!", "…", " 😀", " — naïve", "\n"])


def passage(draw, most):
    return " ".join(sentence(draw, draw.randint(1, 14)) for _ in range(draw.randint(1, most)))


def write_lines(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def dump(value):
    return json.dumps(value, ensure_ascii=False)


def make_files(data):
    draw = random.Random("peregrine")
    conversations = []
    for number in range(48):
        turns = [passage(draw, 4) for _ in range(draw.choice([1, 2, 2, 3, 4]))]
        if number % 11 == 0:
            turns[0] += " Assistant:"
        if number % 13 == 5:
            turns[0] = ""
        key = "conversation" if number % 7 == 3 else "conversations"
        roles = ["human", "gpt"]
        conversations.append({
            "id": f"c{number}",
            key: [{"from": roles[place % 2], "value": turn} for place, turn in enumerate(turns)],
        })
    (data / "conversations.json").write_text(json.dumps(conversations, ensure_ascii=False, indent=1))
    custom = []
    for number in range(20):
        key = "content" if number % 2 else "value"
        turns = [{"role": "user", key: passage(draw, 3)}, {"role": "assistant", key: passage(draw, 3)}]
        custom.append(dump({"conversations": turns[: 1 if number % 9 == 8 else 2]}))
    custom.insert(4, "this line is no JSON")
    custom.insert(9, "")
    write_lines(data / "custom.jsonl", custom)
    chats = []
    for number in range(12):
        chat = {"model": "any", "messages": [{"role": "user", "content": passage(draw, 3)}]}
        if number % 2:
            chat["max_tokens"] = 10 + number
        if number % 3 == 0:
            chat["temperature"] = 0.5
            chat["tools"] = [{"type": "function", "function": {"name": "wind", "parameters": {"é": 1}}}]
        chats.append(dump(chat))
    chats.insert(3, dump({"messages": []}))
    write_lines(data / "openai.jsonl", chats)
    trace = [
        {"timestamp": 1000 * (number * 7 % 10), "input_length": 9, "output_length": 3 + number,
         "hash_ids": [number % 3, 40 + number]}
        for number in range(10)
    ]
    write_lines(data / "mooncake.jsonl", [json.dumps(record) for record in trace])
    questions = [
        {"context": passage(draw, 6), "question": sentence(draw, 6), "choice_A": "a", "choice_B": "b",
         "choice_C": "c", "choice_D": sentence(draw, 3)}
        for _ in range(12)
    ]
    write_lines(data / "longbench.jsonl", [dump(question) for question in questions])
    speed = [
        {"category": ["low_entropy", "mixed", "high_entropy"][number % 3], "turns": [passage(draw, 2)]}
        for number in range(15)
    ]
    write_lines(data / "speed.jsonl", [dump(question) for question in speed])
    agents = [
        [
            {"messages": [{"role": "user", "content": sentence(draw, 5), "name": "x"}], "prompt_tokens": 7 + turn}
            for turn in range(1 + number % 4)
        ]
        for number in range(7)
    ]
    agents[2].append({"messages": []})
    (data / "agents.json").write_text(dump({"metadata": {}, "conversations": agents}))


def make_tokenizer(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<|begin|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    draw = random.Random("tokenizer")
    tokenizer.train_from_iterator([passage(draw, 8) for _ in range(200)], trainer)
    tokenizer.add_special_tokens(["<|user|>", "<|assistant|>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A", pair="<|begin|> $A $B", special_tokens=[("<|begin|>", 0)]
    )
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    template = (
        "{{ bos_token }}{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>"
        "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin|>", "eos_token": "<|end|>",
        "clean_up_tokenization_spaces": False, "chat_template": template, "model_max_length": 100000,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


CASES = {
    "sharegpt": ["--dataset-name", "sharegpt", "--dataset-path", "conversations.json", "--num-prompts", "15"],
    "sharegpt-template": [
        "--dataset-name", "sharegpt", "--dataset-path", "conversations.json", "--num-prompts", "9",
        "--apply-chat-template", "--prompt-suffix", " Be brief.", "--sharegpt-output-len", "7",
    ],
    "sharegpt-context": [
        "--dataset-name", "sharegpt", "--dataset-path", "conversations.json", "--sharegpt-context-len", "120",
    ],
    "random": [
        "--dataset-name", "random", "--dataset-path", "conversations.json", "--num-prompts", "14",
        "--random-input-len", "90", "--random-output-len", "20", "--random-range-ratio", "0.3",
    ],
    "random-as-ids": [
        "--dataset-name", "random", "--dataset-path", "conversations.json", "--num-prompts", "5",
        "--random-input-len", "60", "--random-output-len", "20", "--tokenize-prompt",
    ],
    "random-ids": [
        "--dataset-name", "random-ids", "--num-prompts", "12", "--random-input-len", "40",
        "--random-output-len", "30", "--random-range-ratio", "0.5",
    ],
    "mooncake": ["--dataset-name", "mooncake", "--dataset-path", "mooncake.jsonl", "--mooncake-num-rounds", "2"],
}
NEW_CASES = {
    "custom": ["--dataset-name", "custom", "--dataset-path", "custom.jsonl", "--num-prompts", "11"],
    "openai": ["--dataset-name", "openai", "--dataset-path", "openai.jsonl", "--num-prompts", "9"],
    "longbench_v2": ["--dataset-name", "longbench_v2", "--dataset-path", "longbench.jsonl", "--num-prompts", "6"],
    "speed-bench": ["--dataset-name", "speed-bench", "--dataset-path", "speed.jsonl", "--num-prompts", "8"],
    "speed-bench-tiled": [
        "--dataset-name", "speed-bench", "--dataset-path", "speed.jsonl", "--num-prompts", "12",
        "--speed-bench-category", "mixed",
    ],
    "agentic-trace": [
        "--dataset-name", "agentic-trace", "--dataset-path", "agents.json", "--dataset-offset", "9",
        "--agentic-max-turns", "3", "--num-prompts", "5",
    ],
    "image": [
        "--backend", "sglang-oai-chat", "--dataset-name", "image", "--num-prompts", "4", "--random-input-len", "9",
        "--random-output-len", "7", "--image-count", "3", "--random-image-count", "--image-resolution",
        "random:20x30-40x50",
    ],
    "image-blank": [
        "--backend", "sglang-oai-chat", "--dataset-name", "image", "--num-prompts", "2", "--random-input-len", "9",
        "--random-output-len", "7", "--image-resolution", "33x65", "--image-content", "blank",
    ],
    "shared-prefix": [
        "--dataset-name", "generated-shared-prefix", "--gsp-num-groups", "3", "--gsp-prompts-per-group", "4",
        "--gsp-system-prompt-len", "30", "--gsp-question-len", "12", "--gsp-output-len", "9",
        "--gsp-range-ratio", "0.4",
    ],
    "shared-prefix-zipf": [
        "--dataset-name", "generated-shared-prefix", "--gsp-num-groups", "4", "--gsp-prompts-per-group", "5",
        "--gsp-system-prompt-len", "20", "--gsp-question-len", "8", "--gsp-output-len", "9",
        "--gsp-range-ratio", "0.9", "--gsp-group-distribution", "zipf", "--gsp-zipf-alpha", "1.2",
    ],
    "shared-prefix-turns": [
        "--dataset-name", "generated-shared-prefix", "--gsp-num-groups", "2", "--gsp-prompts-per-group", "3",
        "--gsp-system-prompt-len", "20", "--gsp-question-len", "8", "--gsp-output-len", "9",
        "--gsp-num-turns", "3", "--gsp-ordered",
    ],
}


class Processor:
    """What the image dataset asks of a model's processor; pictures count for nothing."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def apply_chat_template(self, messages, **_):
        content = messages[0]["content"]
        text = content if isinstance(content, str) else content[-1]["text"]
        return self.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False
        )

    def __call__(self, text, **_):
        ids = self.tokenizer.encode(text[0], add_special_tokens=False)
        return {"input_ids": type("Ids", (), {"numel": lambda self: len(ids)})()}


def parse(serving, arguments):
    """The reference's own parser, stopped before it runs."""
    captured = {}
    original = serving.run_benchmark
    serving.run_benchmark = lambda args: captured.setdefault("args", args)
    sys.argv = ["bench", *arguments]
    serving.cli_main()
    serving.run_benchmark = original
    return captured["args"]


def rows_of(serving, args, tokenizer, numpy):
    random.seed(args.seed)
    numpy.random.seed(args.seed)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        rows = serving.get_dataset(args, tokenizer, "model")
        if args.dataset_name == "mooncake":
            import asyncio

            async def replay():
                # The generator sleeps between sessions; a slowdown of zero lets it not.
                rounds = serving.get_mooncake_request_over_time(rows, tokenizer, 0.0, args.mooncake_num_rounds)
                return [row async for row in rounds]

            rows = asyncio.run(replay())
    notes = [line for line in out.getvalue().splitlines() if ".cache" not in line]
    return rows, notes, out


def golden(folder, data, seed):
    sys.path.insert(0, str(Path(__file__).parent))
    import bench_client

    bench_client.prepare(folder)
    import importlib

    import numpy
    from transformers import AutoTokenizer

    name = bench_client.entry(folder)
    serving = importlib.import_module(name)
    tokenizer = AutoTokenizer.from_pretrained(str(data / "tokenizer"))
    new = name.startswith("sglang.benchmark")
    if new:
        images = importlib.import_module("sglang.benchmark.datasets.image")
        images.get_processor = lambda _: Processor(tokenizer)
    cases = dict(CASES, **NEW_CASES) if new else CASES
    result = {}
    for case, arguments in cases.items():
        arguments = [str(data / word) if (data / word).is_file() else word for word in arguments]
        arguments += ["--seed", str(seed)]
        args = parse(serving, arguments) if new else parse_old(arguments)
        rows, notes, _ = rows_of(serving, args, tokenizer, numpy)
        result[case] = {
            "arguments": [word.replace(f"{data}/", "") for word in arguments],
            "notes": notes,
            "rows": [[digest(row.prompt), row.prompt_len, row.output_len] for row in rows],
            "images": [[digest(image) for image in row.image_data or []] for row in rows],
        }
    return result


def parse_old(arguments):
    """The old client builds its parser under __main__; its datasets read only these."""
    import argparse

    parser = argparse.ArgumentParser()
    for flag, default in {
        "backend": "sglang", "dataset-name": "sharegpt", "dataset-path": "", "prompt-suffix": "",
        "mooncake-workload": "conversation",
    }.items():
        parser.add_argument(f"--{flag}", default=default)
    for flag, default in {
        "num-prompts": 1000, "sharegpt-output-len": None, "sharegpt-context-len": None,
        "random-input-len": 1024, "random-output-len": 1024, "mooncake-num-rounds": 1, "seed": 1,
    }.items():
        parser.add_argument(f"--{flag}", type=int, default=default)
    parser.add_argument("--random-range-ratio", type=float, default=0.0)
    parser.add_argument("--apply-chat-template", action="store_true")
    parser.add_argument("--tokenize-prompt", action="store_true")
    return parser.parse_args(arguments)


def digest(prompt):
    text = prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False, default=int)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main():
    data = Path(sys.argv[1])
    if sys.argv[2] == "--one":
        print(json.dumps(golden(sys.argv[3], data, int(sys.argv[4])), ensure_ascii=False))
        return
    make_files(data)
    make_tokenizer(data / "tokenizer")
    for folder in sys.argv[2:]:
        release = next(Path(folder).glob("sglang-*.dist-info")).name.split("-")[1].split(".dist")[0]
        goldens = {}
        for seed in (1, 42):
            command = [sys.executable, __file__, str(data), "--one", folder, str(seed)]
            goldens[str(seed)] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        path = data / f"datasets-{release}.json"
        path.write_text(json.dumps(goldens, ensure_ascii=False, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
