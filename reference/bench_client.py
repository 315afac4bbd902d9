"""Runs the reference's serving benchmark, unmodified, without the packages it does not use.

    python bench_client.py FOLDER [arguments of sglang.bench_serving …]

FOLDER holds the unpacked sglang wheel. Importing the package itself would pull in torch; the client
needs none of it, so the package is entered without running its __init__, and the two modules of the
server that newer clients import a constant and two functions from are stood in for.
"""

import runpy
import sys
import types
from pathlib import Path


def stand_in(name, **attributes):
    module = types.ModuleType(name)
    module.__dict__.update(attributes)
    sys.modules[name] = module


def base_url(url, host, port):
    return url if url else f"http://{host}:{port}"


def host_port(url, host, port):
    return url if url else f"{host}:{port}"


def prepare(folder):
    """Makes the client of an unpacked wheel importable."""
    package = types.ModuleType("sglang")
    package.__path__ = [str(Path(folder) / "sglang")]
    sys.modules["sglang"] = package
    stand_in("datasets", load_dataset=None)
    stand_in("pandas")
    stand_in("sglang.srt")
    stand_in("sglang.srt.utils")
    stand_in("sglang.srt.utils.network", resolve_base_url=base_url, resolve_host_port=host_port)
    stand_in("sglang.srt.disaggregation")
    stand_in("sglang.srt.disaggregation.utils", FAKE_BOOTSTRAP_HOST="2.2.2.2")


def entry(folder):
    """The module that holds the client: it moved in newer releases."""
    moved = Path(folder) / "sglang" / "benchmark" / "serving.py"
    return "sglang.benchmark.serving" if moved.exists() else "sglang.bench_serving"


if __name__ == "__main__":
    folder = sys.argv[1]
    prepare(folder)
    sys.argv = [entry(folder), *sys.argv[2:]]
    runpy.run_module(entry(folder), run_name="__main__", alter_sys=True)
