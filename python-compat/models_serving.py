"""Shared by `models_bench.py` and `torch_bench.py`: initial numbers, and answers to requests.

Needs only NumPy, because JAX and PyTorch have separate environments.
"""

import contextlib
import json
import sys
import time

import numpy as np

COMPARED = 8
"""Number of results that are compared."""


def murmur_mix(n):
    """Returns the final mix of MurmurHash3 for 0 to n - 1."""
    h = np.arange(n, dtype=np.uint32)
    h = (h ^ (h >> 16)) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> 13)) * np.uint32(0xC2B2AE35)
    return h ^ (h >> 16)


def draw_numbers(n):
    """Returns `n` numbers between -1 and 1, as `numbers::numbers` does."""
    return (murmur_mix(n) >> 8).astype(np.float32) / np.float32(1 << 23) - np.float32(1)


def draw_integers(n, end):
    """Returns `n` integers below `end`, as `numbers::integers` does."""
    return (murmur_mix(n) % np.uint32(end)).astype(np.int32)


def serve(version, models):
    """Reads one JSON request per line from standard input and answers each with a line.

    - `start` creates a model and calls it once. The answer is the number of parameters, the seconds
      of the call and the first results. `models` maps a name to a function of sizes and of whether
      to compute in `bf16`, which returns the number of parameters and the call.
    - `run` repeats the call. The answer is the milliseconds per call in wall time and in processor
      time.
    - `version` is answered by the version of the library.
    """
    call = None
    for line in sys.stdin:
        request = json.loads(line)
        if request["what"] == "start":
            # Frees the memory of the last model first.
            settings, call = request["start"], None
            model = models[settings["model"]]
            parameters, call = model(settings["sizes"], settings.get("bf16", False))
            # The peak of resident memory counts from here on. Only Linux has this file.
            with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
                file.write("5")
            start = time.perf_counter()
            values = call()
            answer = [parameters, time.perf_counter() - start, *values]
        elif request["what"] == "version":
            answer = version
        else:
            clocks = (time.perf_counter, time.process_time)
            start = [clock() for clock in clocks]
            for _ in range(request["calls"]):
                call()
            answer = [
                (clock() - begin) * 1000 / request["calls"] for clock, begin in zip(clocks, start)
            ]
        print(json.dumps(answer), flush=True)
