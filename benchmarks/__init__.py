"""Side-by-side benchmarks: this library, its peers and the machine's own limit, in one run.

``python -m benchmarks`` from the root of the repository runs them; ``docs/benchmarks.md`` says how to read the tables.
"""
