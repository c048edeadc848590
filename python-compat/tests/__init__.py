"""Tests of the package `oxidax_compat`: `python -m unittest discover -t . -s tests`."""
