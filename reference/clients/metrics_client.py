"""Reads a server's /metrics with `prometheus_client`'s own parser and compares it with what was asked.

    python metrics_client.py ADDRESS

ADDRESS is host:port of an otherwise idle server that was started with --enable-metrics. The families
named here are those that SGLang's dashboards and users' alerts read.
"""

import json
import math
import sys
import time
import urllib.request
from importlib.metadata import version

from prometheus_client.parser import text_string_to_metric_families

GAUGES = [
    "num_running_reqs",
    "num_used_tokens",
    "token_usage",
    "gen_throughput",
    "num_queue_reqs",
    "num_grammar_queue_reqs",
    "cache_hit_rate",
    "max_total_num_tokens",
    "num_retracted_reqs",
    "num_paused_reqs",
    "new_token_ratio",
    "is_cuda_graph",
    "utilization",
    "engine_startup_time",
    "engine_load_weights_time",
]
COUNTERS = [
    "prompt_tokens",
    "generation_tokens",
    "cached_tokens",
    "num_requests",
    "num_aborted_requests",
    "evicted_tokens",
]
HISTOGRAMS = [
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "e2e_request_latency_seconds",
    "queue_time_seconds",
    "num_retractions",
]
TOKENS = 9


def families(root):
    """Every family by its name without SGLang's prefix."""
    with urllib.request.urlopen(f"{root}/metrics") as answer:
        assert answer.headers["content-type"].startswith("text/plain"), answer.headers
        parsed = list(text_string_to_metric_families(answer.read().decode()))
    assert all(family.name.startswith("sglang:") and family.documentation for family in parsed)
    names = [family.name for family in parsed]
    assert len(names) == len(set(names)), "a family is there twice"
    return {family.name.removeprefix("sglang:"): family for family in parsed}


def value(family):
    (sample,) = family.samples
    return sample.value


def check_kinds_and_labels(now, model):
    for kind, names in [("gauge", GAUGES), ("counter", COUNTERS), ("histogram", HISTOGRAMS)]:
        for name in names:
            assert now[name].type == kind, (name, now[name].type)
            for sample in now[name].samples:
                labels = {key: text for key, text in sample.labels.items() if key != "le"}
                assert labels.pop("model_name") == model, sample
                assert labels == {"engine_type": "unified", "tp_rank": "0", "pp_rank": "0"}, sample
                assert math.isfinite(sample.value) and sample.value >= 0, sample


def check_histogram(family):
    """Buckets only grow, the last one is everything, and the sum is within the bounds."""
    bounds = [sample for sample in family.samples if sample.name.endswith("_bucket")]
    edges = [float(sample.labels["le"]) for sample in bounds]
    counts = [sample.value for sample in bounds]
    assert edges == sorted(set(edges)) and edges[-1] == math.inf, family.name
    assert counts == sorted(counts), family.name
    (total,) = [s.value for s in family.samples if s.name.endswith("_count")]
    assert counts[-1] == total, family.name
    return total


def wait_until_idle(root):
    """The engine's gauges follow the last answer within moments."""
    end = time.monotonic() + 5
    while any(value(families(root)[name]) for name in ("num_running_reqs", "num_queue_reqs")):
        assert time.monotonic() < end, "the gauges say that something runs"
        time.sleep(0.01)


def main():
    root = f"http://{sys.argv[1]}"
    with urllib.request.urlopen(f"{root}/v1/models") as answer:
        model = json.load(answer)["data"][0]["id"]
    before = families(root)
    body = {
        "input_ids": list(range(100, 140)),
        "sampling_params": {"temperature": 0, "max_new_tokens": TOKENS, "ignore_eos": True},
    }
    request = urllib.request.Request(
        f"{root}/generate",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    for _ in range(2):
        with urllib.request.urlopen(request) as answer:
            info = json.load(answer)["meta_info"]
            assert info["completion_tokens"] == TOKENS, info
    cached = info["cached_tokens"]
    assert 0 < cached < 40, "the second time the prompt is known"
    now = families(root)
    check_kinds_and_labels(now, model)
    grown = {name: value(now[name]) - value(before[name]) for name in COUNTERS}
    expected = {"prompt_tokens": 80, "generation_tokens": 2 * TOKENS, "num_requests": 2}
    assert {name: grown[name] for name in expected} == expected, grown
    assert grown["cached_tokens"] >= cached and grown["num_aborted_requests"] == 0, grown
    counted = {
        name: check_histogram(now[name]) - check_histogram(before[name]) for name in HISTOGRAMS
    }
    assert counted["time_to_first_token_seconds"] == 2, counted
    assert counted["e2e_request_latency_seconds"] == 2, counted
    # tokens that came together with the first one have no latency of their own
    assert 0 < counted["inter_token_latency_seconds"] <= 2 * (TOKENS - 1), counted
    wait_until_idle(root)
    print(f"all {len(now)} families hold with prometheus_client {version('prometheus_client')}")


if __name__ == "__main__":
    main()
