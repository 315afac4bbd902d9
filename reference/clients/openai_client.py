"""Holds a running server to its word with the `openai` client, unmodified.

    python openai_client.py ADDRESS API_KEY

ADDRESS is host:port of a server that was started with that API key and serves a small chat model.
Every function whose name begins with `check_` is one property; the first one that does not hold ends
the run with its trace.
"""

import asyncio
import json
import math
import sys
import time
import urllib.request

import openai
from openai.types import Completion, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk

QUESTION = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
TALE = [{"role": "user", "content": "Tell me a long story about a peregrine falcon."}]
PROMPT = "The capital of France is"
DEADLINE_S = 120


class Server:
    """The server's address, its key, and a client that is never helped by a retry."""

    def __init__(self, address, key):
        self.root = f"http://{address}"
        self.key = key
        self.client = self.connect(key)
        self.model = self.client.models.list().data[0].id

    def connect(self, key, kind=openai.OpenAI):
        return kind(
            base_url=f"{self.root}/v1", api_key=key, max_retries=0, timeout=DEADLINE_S
        )

    def chat(self, messages=QUESTION, **options):
        options = {"max_tokens": 24, "temperature": 0, **options}
        return self.client.chat.completions.create(
            model=self.model, messages=messages, **options
        )

    def complete(self, prompt=PROMPT, **options):
        options = {"max_tokens": 24, "temperature": 0, **options}
        return self.client.completions.create(model=self.model, prompt=prompt, **options)

    def native(self, path, body=None):
        request = urllib.request.Request(
            self.root + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"authorization": f"Bearer {self.key}", "content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def wait_for_load(self, requests):
        """Returns when so many run or wait: figures follow the answers within moments."""
        end = time.monotonic() + DEADLINE_S
        while self.native("/get_load")[0]["num_reqs"] != requests:
            assert time.monotonic() < end, f"there are never {requests} requests"
            time.sleep(0.01)


def refusal(kind, request):
    """The error of that kind that a request ends in."""
    try:
        request()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


def whole(chunks):
    """What a stream of chat chunks adds up to, by choice: text, log probabilities, finish reason."""
    choices, usage = {}, None
    for chunk in chunks:
        assert isinstance(chunk, ChatCompletionChunk), chunk
        assert usage is None, "a chunk came after the usage"
        usage = chunk.usage
        assert (chunk.choices == []) == (usage is not None), chunk
        for part in chunk.choices:
            text, scores, reason = choices.get(part.index, ("", [], None))
            assert reason is None, f"choice {part.index} went on after its end"
            assert (part.delta.role == "assistant") == (part.index not in choices), chunk
            text += part.delta.content or ""
            scores = scores + (part.logprobs.content if part.logprobs else [])
            choices[part.index] = (text, scores, part.finish_reason)
    return choices, usage


def check_models_are_listed_and_found(server):
    models = server.client.models.list().data
    assert [type(model) for model in models] == [Model], models
    assert models[0].owned_by == "sglang" and models[0].created <= time.time() + 1
    assert models[0].max_model_len > 0
    assert server.client.models.retrieve(server.model).id == server.model
    error = refusal(openai.NotFoundError, lambda: server.client.models.retrieve("no/such-model"))
    assert error.code == "model_not_found" and "no/such-model" in error.message, error


def check_chat_answers_sensibly(server):
    answer = server.chat()
    assert isinstance(answer, ChatCompletion) and answer.object == "chat.completion"
    assert answer.model == server.model and answer.id and answer.created <= time.time() + 1
    (choice,) = answer.choices
    assert choice.message.role == "assistant" and "Paris" in choice.message.content, choice
    assert choice.finish_reason == "stop" and choice.logprobs is None, choice
    usage = answer.usage
    assert 0 < usage.completion_tokens <= 24 < usage.prompt_tokens, usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, usage


def check_a_chat_stream_adds_up_to_the_answer(server):
    for messages, tokens in [(QUESTION, 24), (TALE, 12)]:
        answer = server.chat(messages, max_tokens=tokens)
        choices, usage = whole(server.chat(messages, max_tokens=tokens, stream=True))
        assert usage is None
        (choice,) = answer.choices
        assert choices == {0: (choice.message.content, [], choice.finish_reason)}, choices
        options = {"include_usage": True}
        stream = server.chat(messages, max_tokens=tokens, stream=True, stream_options=options)
        again, usage = whole(stream)
        assert again == choices and usage == answer.usage, (again, usage, answer.usage)


def check_chat_log_probabilities(server):
    (choice,) = server.chat(TALE, logprobs=True, top_logprobs=3, max_tokens=12).choices
    scores = choice.logprobs.content
    assert len(scores) == 12 and choice.finish_reason == "length", choice
    for score in scores:
        tops = [top.logprob for top in score.top_logprobs]
        assert len(tops) == 3 and tops == sorted(tops, reverse=True), score
        assert score.logprob <= 0 and math.fsum(map(math.exp, tops)) <= 1 + 1e-4, score
        assert (score.top_logprobs[0].token, tops[0]) == (score.token, score.logprob), score
    spelt = b"".join(bytes(score.bytes) for score in scores).decode()
    assert spelt == choice.message.content, (spelt, choice.message.content)
    options = {"logprobs": True, "top_logprobs": 3, "max_tokens": 12, "stream": True}
    streamed, _ = whole(server.chat(TALE, **options))
    text, streamed, reason = streamed[0]
    assert (text, reason) == (choice.message.content, "length")
    assert [score.token for score in streamed] == [score.token for score in scores]
    for one, other in zip(streamed, scores):
        assert abs(one.logprob - other.logprob) < 1e-4, (one, other)


def check_two_choices_of_a_chat(server):
    options = {"n": 2, "seed": 7, "temperature": 1.0, "max_tokens": 12, "logprobs": True}
    answer = server.chat(TALE, **options)
    assert [choice.index for choice in answer.choices] == [0, 1]
    one, two = (choice.message.content for choice in answer.choices)
    assert one and two and one != two, "two choices of one seed are two draws"
    counted = sum(len(choice.logprobs.content) for choice in answer.choices)
    assert answer.usage.completion_tokens == counted, (answer.usage, counted)
    single = server.chat(TALE, max_tokens=1)
    assert answer.usage.prompt_tokens == single.usage.prompt_tokens, answer.usage
    streamed, _ = whole(server.chat(TALE, stream=True, **options))
    assert [streamed[index][0] for index in (0, 1)] == [one, two], (streamed, one, two)
    greedy = server.chat(n=2)
    assert len({choice.message.content for choice in greedy.choices}) == 1, greedy


def check_seeds_repeat_and_differ(server):
    def draw(seed):
        return server.chat(TALE, seed=seed, temperature=1.0).choices[0].message.content

    assert draw(1) == draw(1) and draw(2) == draw(2)
    assert len({draw(seed) for seed in range(1, 5)}) > 1


def check_stop_strings(server):
    full = server.complete(max_tokens=32)
    text = full.choices[0].text
    stop = text.split()[3]
    before = text[: text.index(stop)]
    for given in (stop, ["never said", stop]):
        (choice,) = server.complete(max_tokens=32, stop=given).choices
        assert (choice.text, choice.finish_reason) == (before, "stop"), (choice, before, stop)
        chunks = list(server.complete(max_tokens=32, stop=given, stream=True))
        streamed = "".join(chunk.choices[0].text for chunk in chunks)
        assert streamed == before and chunks[-1].choices[0].finish_reason == "stop", chunks
        assert chunks[-1].choices[0].matched_stop == stop, chunks[-1]
    answer = server.chat(stop=["Paris"])
    assert "Paris" not in answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"


def check_completions_and_their_stream(server):
    answer = server.complete(max_tokens=10)
    assert isinstance(answer, Completion) and answer.object == "text_completion"
    (choice,) = answer.choices
    assert "Paris" in choice.text and choice.finish_reason == "length", choice
    assert answer.usage.completion_tokens == 10, answer.usage
    counted = server.native("/tokenize", {"prompt": PROMPT})["count"]
    assert answer.usage.prompt_tokens == counted, (answer.usage, counted)
    options = {"include_usage": True}
    chunks = list(server.complete(max_tokens=10, stream=True, stream_options=options))
    assert all(isinstance(chunk, Completion) for chunk in chunks)
    *texts, last = chunks
    assert last.choices == [] and last.usage == answer.usage, last
    assert "".join(chunk.choices[0].text for chunk in texts) == choice.text, texts
    reasons = [chunk.choices[0].finish_reason for chunk in texts]
    assert reasons == [None] * (len(texts) - 1) + ["length"], reasons
    default = server.client.completions.create(model=server.model, prompt=PROMPT, temperature=0)
    assert default.usage.completion_tokens <= 16, default.usage


def check_completion_log_probabilities(server):
    answer = server.complete(logprobs=2, max_tokens=6)
    (choice,) = answer.choices
    scores = choice.logprobs
    assert len(scores.tokens) == len(scores.token_logprobs) == len(scores.top_logprobs) == 6
    assert "".join(scores.tokens) == choice.text, scores
    for token, score, tops in zip(scores.tokens, scores.token_logprobs, scores.top_logprobs):
        assert score <= 0 and len(tops) == 2, (token, score, tops)
        assert max(tops, key=tops.get) == token and tops[token] == score, (token, score, tops)
    chunks = server.complete(logprobs=2, max_tokens=6, stream=True)
    tokens, streamed = [], []
    for chunk in chunks:
        if chunk.choices[0].logprobs:
            tokens += chunk.choices[0].logprobs.tokens
            streamed += chunk.choices[0].logprobs.token_logprobs
    assert tokens == scores.tokens, (tokens, scores)
    assert all(abs(a - b) < 1e-4 for a, b in zip(streamed, scores.token_logprobs, strict=True))


def check_echo_repeats_and_scores_the_prompt(server):
    plain = server.complete(max_tokens=6)
    echoed = server.complete(max_tokens=6, echo=True, logprobs=1)
    (choice,) = echoed.choices
    assert choice.text == PROMPT + plain.choices[0].text, choice
    assert echoed.usage == plain.usage, (echoed.usage, plain.usage)
    scores = choice.logprobs.token_logprobs
    assert len(scores) == echoed.usage.total_tokens and scores[0] is None, scores
    assert all(score <= 0 for score in scores[1:]), scores
    assert "".join(choice.logprobs.tokens) == choice.text, choice.logprobs.tokens
    chunks = server.complete(max_tokens=6, echo=True, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == choice.text


def check_batches_of_prompts(server):
    prompts = [PROMPT, "Two plus two is", "Water boils at"]
    alone = [server.complete(prompt, max_tokens=8).choices[0].text for prompt in prompts]
    answer = server.complete(prompts, max_tokens=8, n=2)
    assert [choice.index for choice in answer.choices] == list(range(6))
    assert [choice.text for choice in answer.choices] == [t for text in alone for t in (text, text)]
    assert answer.usage.completion_tokens == 48, answer.usage
    ids = [server.native("/tokenize", {"prompt": prompt})["tokens"] for prompt in prompts]
    by_ids = server.complete(ids, max_tokens=8)
    assert [choice.text for choice in by_ids.choices] == alone
    assert server.complete(ids[0], max_tokens=8).choices[0].text == alone[0]
    texts = [""] * 3
    for chunk in server.complete(prompts, max_tokens=8, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == alone, (texts, alone)


def check_lengths_are_kept(server):
    for tokens in (1, 2, 17):
        answer = server.chat(TALE, max_completion_tokens=tokens, max_tokens=openai.omit)
        assert answer.usage.completion_tokens == tokens, answer.usage
        assert answer.choices[0].finish_reason == "length"
    forced = server.complete(max_tokens=40, extra_body={"ignore_eos": True, "min_tokens": 40})
    assert forced.usage.completion_tokens == 40, forced.usage


def check_refusals_say_why(server):
    for key in ("wrong", server.key + "x", server.key[:-1] or "-"):
        error = refusal(openai.AuthenticationError, server.connect(key).models.list)
        assert error.status_code == 401, error
    room = server.client.models.list().data[0].max_model_len
    long = [7] * room
    error = refusal(openai.BadRequestError, lambda: server.complete(long))
    assert str(room) in error.message and "context length" in error.message, error.message
    long = [{"role": "user", "content": "word " * room}]
    error = refusal(openai.BadRequestError, lambda: server.chat(long, stream=True))
    assert str(room) in error.message and "context length" in error.message, error.message
    for options, word in [
        ({"temperature": -1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"max_tokens": -3}, "max_"),
        ({"n": 0}, "n"),
    ]:
        error = refusal(openai.BadRequestError, lambda: server.complete(**options))
        assert word in error.message and error.status_code == 400, (options, error.message)
    for messages in ([], [{"role": "nobody", "content": "x"}], [{"role": "user"}]):
        error = refusal(openai.BadRequestError, lambda: server.chat(messages))
        assert error.message, messages


def check_an_abandoned_request_ends(server):
    hurried = server.client.with_options(timeout=0.2)
    endless = {
        "model": server.model,
        "prompt": PROMPT,
        "max_tokens": 4000,
        "extra_body": {"ignore_eos": True},
    }
    refusal(openai.APITimeoutError, lambda: hurried.completions.create(**endless))
    server.wait_for_load(0)
    for chunks_read in (1, 5):
        with server.client.completions.create(stream=True, **endless) as stream:
            for _, chunk in zip(range(chunks_read), stream):
                assert chunk.choices[0].finish_reason is None
            server.wait_for_load(1)
        server.wait_for_load(0)
    assert "Paris" in server.chat().choices[0].message.content


def check_many_at_once_answer_as_alone(server):
    names = ["France", "Italy", "Spain", "Japan"]

    def ask(client, name):
        content = f"What is the capital of {name}? Answer in one sentence."
        return client.chat.completions.create(
            model=server.model,
            messages=[{"role": "user", "content": content}],
            max_tokens=16,
            temperature=0,
        )

    async def together():
        async with server.connect(server.key, openai.AsyncOpenAI) as client:
            return await asyncio.gather(*(ask(client, name) for name in names * 4))

    alone = [ask(server.client, name).choices[0].message.content for name in names]
    answers = [answer.choices[0].message.content for answer in asyncio.run(together())]
    assert answers == alone * 4, (answers, alone)


def main():
    server = Server(*sys.argv[1:])
    checks = [(name, check) for name, check in globals().items() if name.startswith("check_")]
    for name, check in checks:
        began = time.monotonic()
        check(server)
        words = name.removeprefix("check_").replace("_", " ")
        print(f"ok: {words} ({time.monotonic() - began:.1f} s)", flush=True)
    print(f"all {len(checks)} hold with openai {openai.__version__}")


if __name__ == "__main__":
    main()
