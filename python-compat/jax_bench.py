"""Measures JAX for the benchmarks and prints the results as JSON.

    jax_bench.py [--quick] [--gpt2] [--first-step] [--serve]

Times are in microseconds unless a name contains another unit. `--first-step` runs one MLP step and
exits; the parent process measures the time from process start. `--serve` answers one request per
line, so that `benches/` can alternate with it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

from recorder import training

SIZES = [784, 1024, 1024, 10]
BATCH = 128
LEAVES = (1, 10, 148, 450)


def time_calls(function, repeats):
    """Returns minimum, median and 90th percentile of the time of a call, after a warm-up."""
    for _ in range(max(repeats // 10, 3)):
        function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        function()
        times.append((time.perf_counter_ns() - start) / 1000)
    times.sort()
    return {
        "min": times[0],
        "median": statistics.median(times),
        "p90": times[int(0.9 * len(times))],
        "calls": repeats,
    }


def dispatch(leaves, repeats):
    """Measures a call that adds one to each of `leaves` arrays f32[4].

    `blocked` waits for each result and `call` does not. `chained` waits at the end of a run.
    `donated` is `chained` with donated arguments.
    """
    tree = [jnp.full((4,), index, jnp.float32) for index in range(leaves)]
    plus_one = jax.jit(lambda tree: [leaf + 1 for leaf in tree])
    jax.block_until_ready(plus_one(tree))
    result = {"blocked": time_calls(lambda: jax.block_until_ready(plus_one(tree)), repeats)}
    result["call"] = time_calls(lambda: plus_one(tree), repeats)

    def run(function, carry):
        start = time.perf_counter_ns()
        for _ in range(repeats):
            carry = function(carry)
        jax.block_until_ready(carry)
        return (time.perf_counter_ns() - start) / 1000 / repeats

    result["chained"] = min(run(plus_one, tree) for _ in range(3))
    donating = jax.jit(lambda tree: [leaf + 1 for leaf in tree], donate_argnums=0)
    new_tree = lambda: [leaf + 0 for leaf in tree]
    run(donating, new_tree())
    result["donated"] = min(run(donating, new_tree()) for _ in range(3))
    return result


def mlp_arguments():
    """Returns parameters, optimizer state and a batch of random images and labels."""
    params = training.init(jax.random.key(0), SIZES)
    rng = np.random.default_rng(0)
    images = rng.uniform(size=(BATCH, SIZES[0])).astype(np.float32)
    return (
        params,
        training.optimizer().init(params),
        images,
        rng.integers(0, 10, BATCH).astype(np.int32),
    )


def phase_times(make, arguments, compiled):
    """Returns the milliseconds to trace, lower and, if `compiled`, compile a newly jitted step."""
    step = make()
    marks = [time.perf_counter()]
    traced = step.trace(*arguments)
    marks.append(time.perf_counter())
    lowered = traced.lower()
    marks.append(time.perf_counter())
    if compiled:
        lowered.compile()
        marks.append(time.perf_counter())
    return [(end - begin) * 1000 for begin, end in zip(marks, marks[1:])]


def phases(make, arguments, repeats, compiled=True):
    """Returns the milliseconds of each phase: `cold` with empty caches of JAX, the others warm."""
    names = ["trace_ms", "lower_ms", "compile_ms"][: 3 if compiled else 2]
    times = {name: [] for name in [*names, "total_ms"]}
    jax.clear_caches()
    for _ in range(repeats + 1):
        measured = phase_times(make, arguments, compiled)
        for name, value in zip(names, measured):
            times[name].append(value)
        times["total_ms"].append(sum(measured))
    return {
        name: {"cold": v[0], "min": min(v[1:]), "median": statistics.median(v[1:])}
        for name, v in times.items()
    }


def mlp_step(repeats):
    """Measures the MLP's training step after a warm-up."""
    step = training.make_step("gelu")
    params, state, images, labels = mlp_arguments()
    times = []
    for _ in range(repeats + 3):
        start = time.perf_counter_ns()
        params, state, loss = step(params, state, images, labels)
        jax.block_until_ready(loss)
        times.append((time.perf_counter_ns() - start) / 1000)
    return {"min": min(times[3:]), "median": statistics.median(times[3:]), "calls": repeats}


def gpt2_step(layers=12, width=768, heads=12, vocabulary=50257, context=64):
    """Returns `(make, arguments)` of the AdamW step of an unrolled GPT-2.

    The arguments are shapes: the step is traced and lowered, but does not run.
    """
    import optax

    def normalize(x, scale, bias):
        mean, var = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(var + 1e-5) * scale + bias

    def block(x, p):
        b, t, c = x.shape
        h = normalize(x, p["ln1_g"], p["ln1_b"]) @ p["qkv_w"] + p["qkv_b"]
        q, k, v = (part.reshape(b, t, heads, c // heads) for part in jnp.split(h, 3, axis=-1))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(np.sqrt(c // heads))
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e10)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v).reshape(b, t, c)
        x = x + mixed @ p["proj_w"] + p["proj_b"]
        h = jax.nn.gelu(normalize(x, p["ln2_g"], p["ln2_b"]) @ p["fc_w"] + p["fc_b"])
        return x + h @ p["out_w"] + p["out_b"]

    def loss(params, tokens):
        x = params["wte"][tokens[:, :-1]] + params["wpe"][: tokens.shape[1] - 1]
        for layer in params["blocks"]:
            x = block(x, layer)
        logits = normalize(x, params["ln_g"], params["ln_b"]) @ params["wte"].T
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    f32 = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
    c = width
    layer = {
        "ln1_g": f32(c),
        "ln1_b": f32(c),
        "qkv_w": f32(c, 3 * c),
        "qkv_b": f32(3 * c),
        "proj_w": f32(c, c),
        "proj_b": f32(c),
    }
    layer |= {
        "ln2_g": f32(c),
        "ln2_b": f32(c),
        "fc_w": f32(c, 4 * c),
        "fc_b": f32(4 * c),
        "out_w": f32(4 * c, c),
        "out_b": f32(c),
    }
    params = {
        "wte": f32(vocabulary, c),
        "wpe": f32(1024, c),
        "ln_g": f32(c),
        "ln_b": f32(c),
        "blocks": [layer] * layers,
    }
    optimizer = optax.adamw(1e-3)

    def step(params, state, tokens):
        value, grads = jax.value_and_grad(loss)(params, tokens)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    state = jax.eval_shape(optimizer.init, params)
    tokens = jax.ShapeDtypeStruct((8, context + 1), jnp.int32)
    return lambda: jax.jit(lambda *a: step(*a), donate_argnums=(0, 1)), (params, state, tokens)


def first_step(repeats):
    """Returns the seconds from the start of a process to its first finished MLP step."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, __file__, "--first-step"], check=True, stdin=subprocess.DEVNULL
        )
        times.append(time.perf_counter() - start)
    return {"min": min(times), "median": statistics.median(times), "runs": repeats}


def dispatch_measurement(leaves, donated, calls):
    """Returns a function that makes `calls` calls and returns the microseconds per call.

    A quarter as many warm-up calls come first. The wait for the last results is not counted.
    """
    plus_one = jax.jit(
        lambda tree: [leaf + 1 for leaf in tree], donate_argnums=0 if donated else ()
    )
    tree = [jnp.full((4,), index, jnp.float32) for index in range(leaves)]

    def measure():
        nonlocal tree
        for count in (calls // 4 + 1, calls):
            start = time.perf_counter_ns()
            for _ in range(count):
                if donated:
                    tree = plus_one(tree)
                else:
                    result = plus_one(tree)
            elapsed = time.perf_counter_ns() - start
        jax.block_until_ready(tree if donated else result)
        return [elapsed / 1000 / calls]

    return measure


def spread_measurement(leaves, calls):
    """Returns a function that measures the microseconds of an awaited call on all devices."""
    mesh = jax.make_mesh((jax.device_count(),), ("i",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
    plus_one = jax.jit(
        lambda tree: [leaf + 1 for leaf in tree], in_shardings=rows, out_shardings=rows
    )
    tree = [
        jax.device_put(jnp.full((jax.device_count(), 4), 0.5, jnp.float32), rows)
        for _ in range(leaves)
    ]

    def measure():
        for count in (calls // 4 + 1, calls):
            start = time.perf_counter_ns()
            for _ in range(count):
                jax.block_until_ready(plus_one(tree))
            elapsed = time.perf_counter_ns() - start
        return [elapsed / 1000 / calls]

    return measure


def phases_measurement(make, arguments, compiled):
    """Returns a function that measures the milliseconds of each phase.

    If `cold`, the function clears JAX's caches first.
    """

    def measure(cold):
        if cold:
            jax.clear_caches()
        return phase_times(make, arguments, compiled)

    return measure


def text_sizes():
    """Returns the bytes of the GPT-2 step's StableHLO text without locations.

    The first size is for JAX's text, the second for MLIR's generic form.
    """
    make, arguments = gpt2_step()
    lowered = make().lower(*arguments)
    module = lowered.compiler_ir("stablehlo").operation
    generic = module.get_asm(print_generic_op_form=True, enable_debug_info=False)
    return [len(text.encode()) for text in (lowered.as_text(), generic)]


def compile_times(layers):
    """Returns the milliseconds of compiling the GPT-2 step: wall time and processor time."""
    make, arguments = gpt2_step(layers)
    lowered = make().lower(*arguments)
    wall, cpu = time.perf_counter(), time.process_time()
    lowered.compile()
    return [(time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3]


def serve():
    """Answers each line of standard input, a JSON request, with a line of numbers."""
    dispatches = {}
    steps = {}
    for line in sys.stdin:
        request = json.loads(line)
        measurement = request.pop("what")
        if measurement in ("dispatch", "spread"):
            key = (measurement, *sorted(request.items()))
            if key not in dispatches:
                dispatches[key] = {"dispatch": dispatch_measurement, "spread": spread_measurement}[
                    measurement
                ](**request)
            answer = dispatches[key]()
        elif measurement == "first_step":
            answer = [first_step(1)["min"] * 1000]
        elif measurement == "gpt2_text":
            answer = text_sizes()
        elif measurement == "gpt2_compile":
            answer = compile_times(**request)
        else:
            if measurement not in steps:
                mlp = lambda: (lambda: training.make_step("gelu"), mlp_arguments())
                make, arguments = {"mlp_phases": mlp, "gpt2_phases": gpt2_step}[measurement]()
                steps[measurement] = phases_measurement(
                    make, arguments, measurement == "mlp_phases"
                )
            answer = steps[measurement](request["cold"])
        print(json.dumps(answer), flush=True)


def main():
    """Prints the report, makes one step, or serves requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="divide the repetitions by ten")
    parser.add_argument(
        "--gpt2", action="store_true", help="also trace and lower a 12-layer GPT-2 step"
    )
    parser.add_argument("--first-step", action="store_true", help="make one MLP step and exit")
    parser.add_argument("--serve", action="store_true", help="answer requests on standard input")
    args = parser.parse_args()
    if args.serve:
        return serve()
    if args.first_step:
        loss = training.make_step("gelu")(*mlp_arguments())[2]
        return jax.block_until_ready(loss) and None
    scale = 10 if args.quick else 1
    report = {"jax": jax.__version__, "cores": os.cpu_count()}
    report["dispatch_us"] = {
        str(leaves): dispatch(leaves, (20000 if leaves <= 10 else 3000) // scale)
        for leaves in LEAVES
    }
    report["mlp_phases"] = phases(
        lambda: training.make_step("gelu"), mlp_arguments(), max(10 // scale, 2)
    )
    report["mlp_step_us"] = mlp_step(max(100 // scale, 5))
    if args.gpt2:
        report["gpt2_12_layers"] = phases(*gpt2_step(), max(5 // scale, 2), compiled=False)
    report["first_step_s"] = first_step(max(5 // scale, 2))
    print(json.dumps(report, indent=1))
    return None


if __name__ == "__main__":
    sys.exit(main())
