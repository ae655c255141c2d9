"""The benchmark: one run, one table, ratios.

A speed in messages a second says more about the machine than about the code, so every figure names a reference and the
run reports ratios: the figures are measured in turns (A B C, A B C, ...) against one real server, each round gives one
ratio, and the median of the rounds counts. `make bench` runs it; `ONLY` and `QUICK` select a part.
"""
