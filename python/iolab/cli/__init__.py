"""The command line: the only package that prints."""

import os

# Set before numpy is imported: its BLAS threads would busy-poll on the CPUs that are measured.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
