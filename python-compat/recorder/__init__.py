"""Records from JAX what oxidax must reproduce; README.md beside this package says how to run it."""
