"""JAX's side of the benchmarks, as one JSON object on standard output; times in microseconds unless the name says otherwise.

`jax_bench.py [--quick] [--gpt2] [--first-step] [--serve]`. `--first-step` runs one MLP step and exits: its parent measures the time from
process start. `--serve` measures what it is asked for, one request a line, so that `benches/` can take turns with it.
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


def timed(function, repeats):
    """Smallest, median and 90th percentile of so many calls, after as many to warm up as a tenth."""
    for _ in range(max(repeats // 10, 3)):
        function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        function()
        times.append((time.perf_counter_ns() - start) / 1000)
    times.sort()
    return {"min": times[0], "median": statistics.median(times), "p90": times[int(0.9 * len(times))], "calls": repeats}


def dispatch(leaves, repeats):
    """A call that adds one to each of so many f32[4]: blocked on every call, in a run blocked at its end, and with donation."""
    tree = [jnp.full((4,), index, jnp.float32) for index in range(leaves)]
    plus_one = jax.jit(lambda tree: [leaf + 1 for leaf in tree])
    jax.block_until_ready(plus_one(tree))
    result = {"blocked": timed(lambda: jax.block_until_ready(plus_one(tree)), repeats)}
    result["call"] = timed(lambda: plus_one(tree), repeats)

    def run(function, carry):
        start = time.perf_counter_ns()
        for _ in range(repeats):
            carry = function(carry)
        jax.block_until_ready(carry)
        return (time.perf_counter_ns() - start) / 1000 / repeats

    result["chained"] = min(run(plus_one, tree) for _ in range(3))
    donating = jax.jit(lambda tree: [leaf + 1 for leaf in tree], donate_argnums=0)
    fresh = lambda: [leaf + 0 for leaf in tree]
    run(donating, fresh())
    result["donated"] = min(run(donating, fresh()) for _ in range(3))
    return result


def mlp_arguments():
    """Parameters, optimizer state and one batch of random images."""
    params = training.init(jax.random.key(0), SIZES)
    rng = np.random.default_rng(0)
    images = rng.uniform(size=(BATCH, SIZES[0])).astype(np.float32)
    return params, training.optimizer().init(params), images, rng.integers(0, 10, BATCH).astype(np.int32)


def phase_times(make, arguments, compiled):
    """Milliseconds to trace, to lower and, if asked for, to compile a step that was jitted anew."""
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
    """Milliseconds of each phase: `cold` with JAX's caches empty, else with them warm."""
    names = ["trace_ms", "lower_ms", "compile_ms"][: 3 if compiled else 2]
    times = {name: [] for name in [*names, "total_ms"]}
    jax.clear_caches()
    for _ in range(repeats + 1):
        measured = phase_times(make, arguments, compiled)
        for name, value in zip(names, measured):
            times[name].append(value)
        times["total_ms"].append(sum(measured))
    return {name: {"cold": v[0], "min": min(v[1:]), "median": statistics.median(v[1:])} for name, v in times.items()}


def mlp_step(repeats):
    """The MLP's training step, warm."""
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
    """`(make, arguments)` of an unrolled GPT-2's AdamW step, by shapes alone: it is traced and lowered, never run."""
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
    layer = {"ln1_g": f32(c), "ln1_b": f32(c), "qkv_w": f32(c, 3 * c), "qkv_b": f32(3 * c), "proj_w": f32(c, c), "proj_b": f32(c)}
    layer |= {"ln2_g": f32(c), "ln2_b": f32(c), "fc_w": f32(c, 4 * c), "fc_b": f32(4 * c), "out_w": f32(4 * c, c), "out_b": f32(c)}
    params = {"wte": f32(vocabulary, c), "wpe": f32(1024, c), "ln_g": f32(c), "ln_b": f32(c), "blocks": [layer] * layers}
    rule = optax.adamw(1e-3)

    def step(params, state, tokens):
        value, grads = jax.value_and_grad(loss)(params, tokens)
        updates, state = rule.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    state = jax.eval_shape(rule.init, params)
    tokens = jax.ShapeDtypeStruct((8, context + 1), jnp.int32)
    return lambda: jax.jit(lambda *a: step(*a), donate_argnums=(0, 1)), (params, state, tokens)


def first_step(repeats):
    """Seconds from the start of a fresh process to its first finished MLP step."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([sys.executable, __file__, "--first-step"], check=True, stdin=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return {"min": min(times), "median": statistics.median(times), "runs": repeats}


def served_dispatch(leaves, donated, calls):
    """A function that makes so many calls and tells microseconds a call.

    A quarter as many before them warm the caches, and waiting for the last results is not counted either.
    """
    plus_one = jax.jit(lambda tree: [leaf + 1 for leaf in tree], donate_argnums=0 if donated else ())
    tree = [jnp.full((4,), index, jnp.float32) for index in range(leaves)]

    def measure():
        nonlocal tree
        for counted in (calls // 4 + 1, calls):
            start = time.perf_counter_ns()
            for _ in range(counted):
                if donated:
                    tree = plus_one(tree)
                else:
                    result = plus_one(tree)
            passed = time.perf_counter_ns() - start
        jax.block_until_ready(tree if donated else result)
        return [passed / 1000 / calls]

    return measure


def served_spread(leaves, calls):
    """A function that tells microseconds of an awaited call on all devices."""
    mesh = jax.make_mesh((jax.device_count(),), ("i",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
    plus_one = jax.jit(lambda tree: [leaf + 1 for leaf in tree], in_shardings=rows, out_shardings=rows)
    tree = [jax.device_put(jnp.full((jax.device_count(), 4), 0.5, jnp.float32), rows) for _ in range(leaves)]

    def measure():
        for counted in (calls // 4 + 1, calls):
            start = time.perf_counter_ns()
            for _ in range(counted):
                jax.block_until_ready(plus_one(tree))
            passed = time.perf_counter_ns() - start
        return [passed / 1000 / calls]

    return measure


def served_phases(make, arguments, compiled):
    """A function that tells the milliseconds of each phase, with JAX's caches empty if `cold`."""

    def measure(cold):
        if cold:
            jax.clear_caches()
        return phase_times(make, arguments, compiled)

    return measure


def text_sizes():
    """Bytes of the GPT-2 step's module as text, without locations: as JAX prints it, and in MLIR's generic form."""
    make, arguments = gpt2_step()
    lowered = make().lower(*arguments)
    module = lowered.compiler_ir("stablehlo").operation
    generic = module.get_asm(print_generic_op_form=True, enable_debug_info=False)
    return [len(text.encode()) for text in (lowered.as_text(), generic)]


def serve():
    """Answers each line of standard input, a request in JSON, by a line of numbers."""
    dispatches = {}
    steps = {}
    for line in sys.stdin:
        request = json.loads(line)
        what = request.pop("what")
        if what in ("dispatch", "spread"):
            key = (what, *sorted(request.items()))
            if key not in dispatches:
                dispatches[key] = {"dispatch": served_dispatch, "spread": served_spread}[what](**request)
            answer = dispatches[key]()
        elif what == "first_step":
            answer = [first_step(1)["min"] * 1000]
        elif what == "gpt2_text":
            answer = text_sizes()
        else:
            if what not in steps:
                mlp = lambda: (lambda: training.make_step("gelu"), mlp_arguments())
                make, arguments = {"mlp_phases": mlp, "gpt2_phases": gpt2_step}[what]()
                steps[what] = served_phases(make, arguments, what == "mlp_phases")
            answer = steps[what](request["cold"])
        print(json.dumps(answer), flush=True)


def main():
    """Prints the report, makes one step, or serves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    parser.add_argument("--gpt2", action="store_true", help="trace and lower a 12-layer GPT-2 step too")
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
    report["dispatch_us"] = {str(leaves): dispatch(leaves, (20000 if leaves <= 10 else 3000) // scale) for leaves in LEAVES}
    report["mlp_phases"] = phases(lambda: training.make_step("gelu"), mlp_arguments(), max(10 // scale, 2))
    report["mlp_step_us"] = mlp_step(max(100 // scale, 5))
    if args.gpt2:
        report["gpt2_12_layers"] = phases(*gpt2_step(), max(5 // scale, 2), compiled=False)
    report["first_step_s"] = first_step(max(5 // scale, 2))
    print(json.dumps(report, indent=1))
    return None


if __name__ == "__main__":
    sys.exit(main())
