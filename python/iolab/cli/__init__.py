"""The command line: the only place that prints."""

import os

# Before numpy is imported: its BLAS would keep threads spinning on the CPUs that are being measured.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
