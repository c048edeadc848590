#!/bin/sh
# Compares the pinned JAX with the command `oxidax` in the folder $1: suites of fixtures, a function
# with its derivatives, and a function with a loop, a conditional and random numbers. CI runs it.
set -eu
command=$(cd "$1" && pwd)/oxidax
cd "$(dirname "$0")"
python=.venv/bin/python
"$command" verify special nn transforms --every 12 --python "$python"
"$command" verify tests.programs:wide --args 'f32[8,3]' --gradients --python "$python"
"$command" verify tests.programs:looped --args tests.programs:key 'f32[4,3]' --python "$python"
