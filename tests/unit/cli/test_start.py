"""How much is loaded before a command does anything: what is slow to load waits until it is needed."""

import subprocess
import sys

SLOW = ("asyncio", "jinja2", "numpy", "pandas", "pyarrow", "scipy", "ssl", "statsmodels", "vl_convert")
"""Each takes 50 to 400 ms to load, more than all else that a command needs to read a file."""


def test_the_command_line_starts_without_what_only_figures_need() -> None:
    """`iolab --help`, `check` and `plan` make no figures and ask no monitor."""
    script = f"import sys, iolab.cli.main; print(*sys.modules.keys() & set({SLOW}))"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert loaded.split() == []
