"""What the threads of engines were doing: sampled stacks, and the stages that were open meanwhile."""

RATE_HZ = 50
"""Samples of each thread a second, unless told otherwise."""
