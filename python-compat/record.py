"""Records the fixtures.

`record.py [SUITE …]` writes suites. `record.py --check [SUITE …]` recomputes a sample and compares
it with the committed fixtures.
"""

import argparse
import importlib
import os
import subprocess
import sys
import time

# With one thread and one instruction set, rounding is the same on all x86-64 machines with AVX2.
os.environ["XLA_FLAGS"] = "--xla_cpu_max_isa=AVX2 --xla_cpu_multi_thread_eigen=false"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_THREEFRY_PARTITIONABLE"] = "1"

SUITES = [
    "promotion",
    "trees",
    "random",
    "samplers",
    "mlp",
    "fashion",
    "gpt2",
    "resnet",
    "ops",
    "lax",
    "special",
    "numpy",
    "linalg",
    "scipy_linalg",
    "scipy_functions",
    "scipy_matrices",
    "scipy_solvers",
    "transforms",
    "autodiff",
    "control_flow",
    "refs",
    "collectives",
    "parallel",
    "nn",
    "layers",
    "flax_layers",
    "flax_options",
    "flax_functions",
    "optim",
    "optax_functions",
    "api",
    "options",
    "lax_options",
    "remaining",
    "research",
    "scipy_signal",
    "scipy_halves",
    "scipy_spatial",
    "scipy_sparse",
    "scipy_formats",
]
# `--check` recomputes one in this many cases of a suite. 1 selects every case.
STRIDE = {
    "random": 20,
    "samplers": 24,
    "mlp": 1,
    "gpt2": 1,
    "resnet": 3,
    "ops": 24,
    "lax": 24,
    "special": 8,
    "numpy": 16,
    "linalg": 24,
    "scipy_linalg": 8,
    "scipy_functions": 8,
    "scipy_matrices": 12,
    "scipy_solvers": 3,
    "transforms": 12,
    "autodiff": 12,
    "control_flow": 8,
    "refs": 6,
    "collectives": 6,
    "parallel": 6,
    "nn": 5,
    "layers": 8,
    "flax_layers": 4,
    "flax_options": 8,
    "flax_functions": 6,
    "optim": 4,
    "optax_functions": 4,
    "api": 20,
    "options": 12,
    "lax_options": 6,
    "remaining": 12,
    "research": 3,
    "scipy_signal": 16,
    "scipy_halves": 8,
    "scipy_spatial": 12,
    "scipy_sparse": 12,
    "scipy_formats": 12,
}


def main() -> int:
    """Records or checks the selected suites."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", choices=[[], *SUITES], help="default: all")
    parser.add_argument(
        "--check", action="store_true", help="compare a sample instead of recording"
    )
    args = parser.parse_args()
    names = args.suites or [name for name in SUITES if not (args.check and name == "fashion")]
    problems, failed = [], 0
    if names == ["parallel"]:
        os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=8"
    for name in names:
        if name == "parallel" and len(names) > 1:
            # The number of devices is fixed for a process, and the rounding of other suites depends
            # on it.
            failed = subprocess.call(
                [sys.executable, __file__, *(["--check"] if args.check else []), name]
            )
            continue
        start = time.perf_counter()
        module = importlib.import_module(f"recorder.{name}_suite")
        if name in ("promotion", "trees"):
            problems += module.check() if args.check else module.record() or []
        elif args.check:
            problems += module.build(STRIDE[name], quick=True).check()
        else:
            suite = module.build(1, quick=False)
            print(f"{name}: {len(suite.cases)} cases, {suite.write():,} bytes of arrays")
        print(f"  {name} took {time.perf_counter() - start:.1f} s")
    for problem in problems:
        print(f"PROBLEM {problem}", file=sys.stderr)
    return 1 if problems or failed else 0


if __name__ == "__main__":
    sys.exit(main())
