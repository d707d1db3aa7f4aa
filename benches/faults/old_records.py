"""Measure how fast records of older versions are read, and check how damaged ones are handled.

    .venv/bin/python -m benches.faults.old_records [--trials 100000] [--mutations 10000] [--seed 1]

Reads `--trials` lines of each older schema, generated from the golden runs in tests/golden/, and as many of the current
schema for comparison. Limit: 10 s of CPU time for 100 000 lines, including the upgrade. Then it damages the files of
golden runs `--mutations` times at random (bytes changed, removed or doubled; JSON values replaced, removed, renamed,
nested) and reads each: a file must be read, or refused with its path and the place of the error. Any other outcome is a
defect, and the exit status is 1.
"""

import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benches.faults.mutated_records import GOLDEN, READ, REFUSED, copies, damaged
from benches.harness.arguments import Argument, arguments

from iolab.own_kinds import provide_own_kinds
from iolab.store.codec import TrialReader, encode_trial
from iolab.store.read import load_run

ARGUMENTS = (
    Argument("--trials", 100_000, "lines of each schema that are read"),
    Argument("--mutations", 10_000, "damaged runs that are read"),
    Argument("--seed", 1, "of the damage"),
)
CONCLUDED_EVERY = 10
"""Every n-th damaged run is analysed and rendered as well."""
STATED_S = 10.0
"""Documented time for 100 000 trials of an older schema."""


def main() -> int:
    """Print the reading times and the results of the damage test; return the exit code."""
    asked = arguments(__doc__, *ARGUMENTS)
    provide_own_kinds()
    return max(reading(asked.trials), damaging(asked.mutations, asked.seed))


def reading(count: int) -> int:
    """Read many lines of each schema, and print the CPU times."""
    late = 0
    for name in ("schema-1-last-streams", "schema-2-first-streams", "schema-2-last-streams"):
        lines = (GOLDEN / name / "trials.jsonl").read_bytes().splitlines(keepends=True)
        took_s = read_all([lines[at % len(lines)] for at in range(count)])
        per_100k_s = took_s / count * 100_000
        print(
            f"{name}: {count} trials in {took_s:.2f} s, {per_100k_s:.2f} s per 100 000 (stated: {STATED_S} s)"
        )
        late |= per_100k_s > STATED_S
    today = [encode_trial(record).encode() for record in load_run(GOLDEN / "schema-2-last-streams").trials]
    print(
        f"today's schema: {count} trials in {read_all([today[at % len(today)] for at in range(count)]):.2f} s"
    )
    return int(late)


def read_all(lines: list[bytes]) -> float:
    """Return the CPU time to read these lines as one file [s]."""
    reader = TrialReader()
    began = time.process_time()
    for line in lines:
        reader.read(line)
    return time.process_time() - began


def damaging(count: int, seed: int) -> int:
    """Damage golden runs, and report how reading them ended."""
    random_, found = random.Random(seed), Counter[str]()  # equal seeds give equal damage
    with tempfile.TemporaryDirectory() as folder:
        runs = copies(Path(folder))
        for number in range(count):
            found[damaged(random_.choice(runs), random_, concluded=number % CONCLUDED_EVERY == 0)] += 1
    print(
        f"{count} damaged runs (seed {seed}): {found.pop(READ, 0)} read, {found.pop(REFUSED, 0)} refused with place"
    )
    for defect, times in found.most_common():
        print(f"  {times} x {defect}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
