"""Measure the start time of commands as multiples of `python -c pass` in the same run.

Usage: python -m benches.cost.startup [RUNS]. Works with or without root. Prints CPU seconds (user and system), because
wall time would include the work of other programs. The minimum of several runs is the cost of the command; anything
above it is caused by the host.
"""

import os
import resource
import subprocess
import sys
from functools import partial

from benches.harness import run
from benches.harness.arguments import Argument, arguments
from benches.harness.pairs import alternated
from benches.harness.programs import ROOT

ARGUMENTS = (Argument("runs", 5, "how often each command is started"),)
IOLAB = str(run.IOLAB)
COMPLETION = {"_IOLAB_COMPLETE": "complete_bash", "COMP_WORDS": "iolab ch", "COMP_CWORD": "1"}
COMMANDS: dict[str, tuple[list[str], dict[str, str], float]] = {
    "python -c pass": ([sys.executable, "-c", "pass"], {}, 1),
    "iolab --version": ([IOLAB, "--version"], {}, 3),
    "completion of iolab ch": ([IOLAB], COMPLETION, 10),
    "iolab --help": ([IOLAB, "--help"], {}, 15),
    "iolab check labs/quickstart.yaml": ([IOLAB, "check", "labs/quickstart.yaml"], {}, 30),
    "iolab plan labs/quickstart.yaml": ([IOLAB, "plan", "labs/quickstart.yaml"], {}, 40),
    "iolab plan labs/kvm-forwarding.yaml": ([IOLAB, "plan", "labs/kvm-forwarding.yaml"], {}, 130),
}
"""Each command with its environment and its maximum multiple."""


def main() -> None:
    """Alternate the commands, so that a busy minute affects all of them."""
    starts = {name: partial(cpu_s, argv, environment) for name, (argv, environment, _) in COMMANDS.items()}
    runs = alternated(starts, arguments(__doc__, *ARGUMENTS).runs)
    cost = {name: min(spent) for name, spent in runs.items()}
    compiled = any((ROOT / "python/iolab/__pycache__").glob("*.pyc"))
    print(f"bytecode {'present' if compiled else 'absent: compile it first (make setup)'}")
    for name, (_, _, bound) in COMMANDS.items():
        multiple = cost[name] / cost["python -c pass"]
        print(f"{name:40} {cost[name]:6.3f} s CPU {multiple:6.1f}x (bound {bound}x)")


def cpu_s(argv: list[str], environment: dict[str, str]) -> float:
    """Return the CPU time of a command and its children [s]."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, env=os.environ | environment, cwd=ROOT, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    main()
