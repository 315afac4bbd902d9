"""Puts more on a server than it can bear and sees whether its other clients notice.

    python3 overload.py PEREGRINE MODEL [--seconds 20] [--streams 4] [--attacks bodies messages probes texts] [FLAG-OF-THE-SERVER…]

Starts `PEREGRINE serve MODEL` with a key, takes the rate of some streams alone, then beside

    40 bodies of 60 MB that come slowly,
    6 clients that send chats of 260,000 empty messages,
    64 clients without a key that ask for health,
    5 clients that have 20 MB made into tokens and hang up,

each in a process of its own that yields to the server: a machine with fewer cores than both use says nothing. Ends with 1 unless the streams keep 90 % of their rate, `/ping` answers within
100 ms, and memory is back within 256 MB half a minute after. Only Python's standard library is needed. The model must have a tokenizer
and a chat template.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time

KEY = "overload"
SLOW_BODY = 60_000_000
PART = 1 << 20
SHARE = 0.9
PING = 0.1
LEFT = 256 << 20


def head(path, length, key=KEY):
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {length}"]
    return "\r\n".join([*lines, f"Authorization: Bearer {key}", "", ""]).encode()


def again(work):
    """Does the work over and over, as a client that does not give up."""
    os.nice(19)
    while True:
        try:
            work()
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)


def slow_body(port):
    def work():
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(head("/generate", SLOW_BODY))
            spaces = b" " * PART
            for _ in range(SLOW_BODY // PART - 1):
                connection.sendall(spaces)
            while True:
                connection.sendall(b" ")
                time.sleep(1)

    again(work)


def empty_messages(port):
    message = '{"role":"user","content":""}'
    body = ('{"model":"x","max_tokens":1,"messages":[' + ",".join([message] * 260_000) + "]}").encode()

    def work():
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(head("/v1/chat/completions", len(body)) + body)
            connection.recv(4096)

    again(work)


def probe(port):
    def work():
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for path in ("/health", "/health_generate"):
            connection.request("GET", path)
            connection.getresponse().read()
        connection.close()

    again(work)


def tokenize(port):
    body = json.dumps({"prompt": "falcon " * (20_000_000 // 7)}).encode()

    def work():
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(head("/tokenize", len(body)) + body)

    again(work)


ATTACKS = {"bodies": (slow_body, 40), "messages": (empty_messages, 6), "probes": (probe, 64), "texts": (tokenize, 5)}


class Streams:
    """Streams that are read to their end and begun anew, and the events that came."""

    def __init__(self, port, count):
        self.port, self.events, self.failures, self.over = port, 0, [], False
        self.threads = [threading.Thread(target=self.read, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def read(self):
        sampling = {"temperature": 0, "max_new_tokens": 400, "ignore_eos": True}
        body = json.dumps({"text": "The falcon", "stream": True, "sampling_params": sampling})
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
        while not self.over:
            connection = http.client.HTTPConnection("127.0.0.1", self.port)
            connection.request("POST", "/generate", body, headers)
            answer = connection.getresponse()
            if answer.status != 200:
                self.failures.append(answer.status)
            for line in answer:
                self.events += line.startswith(b"data: {")
                if self.over:
                    break
            connection.close()

    def rate(self, seconds):
        before, began = self.events, time.monotonic()
        time.sleep(seconds)
        return (self.events - before) / (time.monotonic() - began)


class Pings:
    """The longest that `/ping` took."""

    def __init__(self, port):
        self.port, self.worst, self.over = port, 0.0, False
        self.thread = threading.Thread(target=self.ask, daemon=True)
        self.thread.start()

    def ask(self):
        while not self.over:
            began = time.monotonic()
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
                connection.request("GET", "/ping", headers={"Authorization": f"Bearer {KEY}"})
                connection.getresponse().read()
                connection.close()
            except (OSError, http.client.HTTPException) as error:
                print(f"/ping: {error}")
                self.worst = float("inf")
            self.worst = max(self.worst, time.monotonic() - began)
            time.sleep(0.05)


def resident(process):
    with open(f"/proc/{process.pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_until_ready(process, port):
    while process.poll() is None:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", "/ready", headers={"Authorization": f"Bearer {KEY}"})
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit(f"the server ended with {process.returncode}")


def measure(process, port, streams, seconds, attacks):
    running = Streams(port, streams)
    running.rate(2)
    alone = running.rate(seconds)
    before = resident(process)
    works = [work for name in attacks for work in [ATTACKS[name][0]] * ATTACKS[name][1]]
    attackers = [multiprocessing.Process(target=work, args=(port,), daemon=True) for work in works]
    for attacker in attackers:
        attacker.start()
    time.sleep(2)
    pings = Pings(port)
    beside, most, until = 0.0, 0, int(seconds)
    for _ in range(until):
        beside += running.rate(1) / until
        most = max(most, resident(process))
    pings.over = True
    pings.thread.join()
    for attacker in attackers:
        attacker.kill()
    deadline = time.monotonic() + 30
    while resident(process) > before + LEFT and time.monotonic() < deadline:
        time.sleep(0.5)
    after = resident(process)
    running.over = True
    print(f"events/s alone {alone:.1f}, beside {beside:.1f} ({beside / alone:.0%}); worst /ping {1e3 * pings.worst:.0f} ms")
    print(f"memory before {before >> 20} MiB, at most {most >> 20} MiB, after {after >> 20} MiB; refused streams: {running.failures}")
    wrong = []
    if beside < SHARE * alone:
        wrong.append(f"streams kept less than {SHARE:.0%} of their rate")
    if pings.worst > PING:
        wrong.append(f"/ping took more than {1e3 * PING:.0f} ms")
    if after > before + LEFT:
        wrong.append(f"more than {LEFT >> 20} MiB are not given back")
    if running.failures:
        wrong.append("streams were refused")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--attacks", nargs="+", choices=ATTACKS, default=list(ATTACKS))
    options, flags = parser.parse_known_args()
    port = free_port()
    command = [options.program, "serve", options.model, "--port", str(port), "--api-key", KEY, "--log-level", "warning", *flags]
    process = subprocess.Popen(command)
    try:
        wait_until_ready(process, port)
        wrong = measure(process, port, options.streams, options.seconds, options.attacks)
    finally:
        process.terminate()
        process.wait()
    sys.exit("; ".join(wrong) or 0)


if __name__ == "__main__":
    main()
