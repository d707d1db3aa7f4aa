"""Disk trials: one program on one disk of a machine, and its results in bytes, operations and nanoseconds."""
