"""Check that iolab names planted causes: run every case of benches/faults like a user, and score the conclusions.

Usage: python -m benches.faults.planted [--probe] [--json FILE] [WORD ...]. Needs root and iperf3; takes 5 to 15 s per
case. WORDs select cases by their names. Prints each conclusion with its grade, then k of n. With --probe an independent
program records kernel timestamps and times, and a case counts only if this record confirms the planted cause.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benches.faults.planted_cases import Act, Case, Grade, Probe, Score, all_cases, score
from benches.harness.arguments import Argument, arguments
from benches.harness.programs import BUSY, lab_netns, output, within
from benches.harness.run import IOLAB

from iolab.units import NS_PER_S

PROBE = Path(__file__).parents[1] / "harness" / "planted_probe.py"
ARGUMENTS = (
    Argument("words", (), "parts of the names of cases; absent: all", several=True),
    Argument("--probe", False, "let an independent reader look on"),
    Argument("--json", None, "file for the scores", Path),
)
OF_THE_HOST = frozenset({"cpu-taken", "cpu-withheld", "kernel-stood-still", "wire-late", "cpu-shared"})
"""Codes of the warnings about interference on the host."""
TRIES = int(os.environ.get("PLANTED_TRIES", "3"))
"""Maximum number of runs of a case; the first one that the host does not disturb counts."""
LIMIT_S = 240.0
"""Time limit of a case."""
LOOK_S = 0.02


def main() -> None:
    """Run the cases and print their scores."""
    asked = arguments(__doc__, *ARGUMENTS)
    if os.geteuid():
        raise SystemExit("planted.py needs root: it runs labs, and changes them while they run")
    scores: dict[str, Score] = {}
    for case in all_cases(asked.words):
        found = _until_calm(case, probing=asked.probe)
        scores[case.name] = found
        print(f"{found.grade.value:8} {case.name}: {case.cause}\n         {found.text}", flush=True)
        for one in found.contradictions:
            print(f"         CONTRADICTION: {one}", flush=True)
    counts = {grade: sum(one.grade is grade for one in scores.values()) for grade in Grade}
    contradictions = sum(bool(one.contradictions) for one in scores.values())
    print(
        f"{counts[Grade.NAMED]} of {len(scores)} named, {counts[Grade.DOUBTFUL]} in doubt, "
        f"{counts[Grade.WRONG]} wrong and certain, {contradictions} contradict themselves"
    )
    if asked.json:
        asked.json.write_text(json.dumps({name: asdict(one) for name, one in scores.items()}, indent=1))


def _until_calm(case: Case, *, probing: bool) -> Score:
    """Repeat a case while the host disturbs it; a right conclusion counts in any case."""
    for _ in range(TRIES):
        trials, seen, written = _run(case, probing=probing)
        found = score(case, trials, written)
        marks = {one["code"] for trial in trials for one in trial["warnings"]}
        if found.grade is Grade.NAMED or not marks & OF_THE_HOST - case.warnings:
            break
    if not probing or not case.probes or case.refused:
        return found
    text = f"{found.text}\n         probe: {'; '.join(text for text, _ in seen) or 'nothing was seen'}"
    agreed = len(seen) == len(case.probes) and all(agrees for _, agrees in seen)
    return Score(
        found.grade if agreed else Grade.WRONG, text + ("" if agreed else " DISAGREES"), found.contradictions
    )


def _run(case: Case, *, probing: bool) -> tuple[Sequence[Mapping[str, Any]], list[tuple[str, bool]], str]:
    """Run a case; return its trials, the probes' results with their agreement, and the output of the run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{case.name}.yaml")
        path.write_text(case.experiment)
        argv = [str(IOLAB), "run", str(path)]
        with Path(folder, "output").open("w+") as output:
            run = subprocess.Popen(argv, cwd=folder, stdout=output, stderr=subprocess.STDOUT, text=True)
            with _beside(case, run, probing=probing) as seen:
                try:
                    run.wait(LIMIT_S)
                except subprocess.TimeoutExpired:
                    run.send_signal(signal.SIGTERM)
                    run.wait(60)
            output.seek(0)
            written = output.read()
        argv = [str(IOLAB), "show", "last", "--json"]
        shown = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
        return ([] if shown.returncode else json.loads(shown.stdout)["trials"]), seen, written


@contextmanager
def _beside(case: Case, run: subprocess.Popen[str], *, probing: bool) -> Iterator[list[tuple[str, bool]]]:
    """Run the actions of a case during its trial."""
    seen: list[tuple[str, bool]] = []
    hogs = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(case.hogs)]
    actor = threading.Thread(target=_act, args=(case, run, seen, probing))
    actor.start()
    try:
        yield seen
    finally:
        actor.join()
        for hog in hogs:
            hog.kill()
            hog.wait()


def _act(case: Case, run: subprocess.Popen[str], seen: list[tuple[str, bool]], probing: bool) -> None:
    if not case.acts and not (probing and case.probes):
        return
    readers: dict[str, subprocess.Popen[str]] = {}
    known: dict[str, int] = {}
    while "client" not in known:
        if run.poll() is not None:
            return
        time.sleep(LOOK_S)
        known = _programs(run.pid)
        if probing and not readers and all(_is_made(one.at, one.after) for one in case.probes):
            readers = {ref: _port_reader(ref, words) for ref, words in _ports_of(case).items()}
    begin_ns = time.monotonic_ns()
    programs = {one.program for one in case.probes if one.program} if probing else set()
    readers |= {name: _reader("--pid", str(known[name])) for name in programs if name in known}
    for act in sorted(case.acts, key=lambda one: one.at_ns):
        time.sleep(max(0, begin_ns + act.at_ns - time.monotonic_ns()) / NS_PER_S)
        _do(act, known)
    while readers and "client" in _programs(run.pid):
        time.sleep(LOOK_S)
    counted = {name: json.loads(reader.communicate()[0].splitlines()[-1]) for name, reader in readers.items()}
    seen += [_judge(one, counted) for one in case.probes if (one.at or one.program) in counted]


def _is_made(*refs: str | None) -> bool:
    """Whether the namespaces of the ports exist; each probe waits for its port itself."""
    return all(lab_netns(ref.partition(".")[0]) for ref in refs if ref)


def _ports_of(case: Case) -> dict[str, set[str]]:
    """Return the ports that a case's probes read, each with the data needed in addition to received packets."""
    found: dict[str, set[str]] = {}
    for probe in case.probes:
        for ref, word in ((probe.at, "--flight"), (probe.after, "--sent")):
            if ref:
                wanted = word == "--sent" or probe.figure == "flight_bytes"
                found.setdefault(ref, set()).update({word} if wanted else ())
    return found


def _port_reader(ref: str, words: set[str]) -> subprocess.Popen[str]:
    machine, _, port = ref.partition(".")
    return _reader(port, *words, netns=lab_netns(machine))


def _reader(*words: str, netns: str = "") -> subprocess.Popen[str]:
    argv = within(netns, sys.executable, "-S", str(PROBE), *words)
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _rate_bps(slices: Sequence[Sequence[int]]) -> float:
    """Return the rate at which all but the first and the last hundredth of the bytes arrived.

    The excluded bytes include the control messages of the programs before and after the data, which take a considerable
    time on a long path.
    """
    total, arrived = sum(octets for *_, octets in slices), 0
    within: list[tuple[int, int]] = []
    for at_ns, _, _, octets in slices:
        if total <= 100 * (arrived + octets) and 100 * arrived <= 99 * total:
            within.append((at_ns, octets))
        arrived += octets
    if len(within) < 2:
        return 0.0
    return sum(octets for _, octets in within[:-1]) * 8 * NS_PER_S / (within[-1][0] - within[0][0])


def _lost(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """Return the share of data lost between two ports, in the time in which both were read."""
    begin_ns = max(before["ready_ns"], after["ready_ns"])
    end_ns = min(one["slices"][-1][0] if one["slices"] else 0 for one in (before, after))

    def data_bytes(seen: Mapping[str, Any]) -> int:
        rows = [row for row in seen["slices"] if begin_ns <= row[0] < end_ns]
        return int(max(sum(received for _, received, _, _ in rows), sum(sent for _, _, sent, _ in rows)))

    return 1 - data_bytes(after) / max(1, data_bytes(before))


def _judge(probe: Probe, counted: Mapping[str, Mapping[str, Any]]) -> tuple[str, bool]:
    """Return a probe's figure, and whether it agrees with the planted cause."""
    own = counted[probe.at or probe.program]
    if probe.figure == "rate_bps":
        value = _rate_bps(own["slices"])
        text = f"{value / 1e6:.3f} Mbit/s of IP at {probe.at}"
    elif probe.figure == "short_bps":
        value = own["short_bytes"] * 8 * NS_PER_S / max(1, own["short_span_ns"])
        text = f"{value / 1e3:.1f} kbit/s of packets without data at {probe.at}"
    elif probe.after is not None:
        value = _lost(counted[probe.after], own)
        text = f"{value:.3%} lost from {probe.after} to {probe.at}"
    else:
        value = own[probe.figure]
        text = f"{probe.figure} {value:.6g} of {probe.at or probe.program}"
    missed = sum(int(counted[ref].get("missed", 0)) for ref in (probe.at, probe.after) if ref)
    return text + (f", {missed} missed" if missed else ""), probe.low <= value <= probe.high and not missed


def _do(act: Act, known: Mapping[str, int]) -> None:
    words = [re.sub(r"\{(client|server)\}", lambda word: str(known[word[1]]), text) for text in act.argv]
    output(*within(lab_netns(act.machine) if act.machine else "", *words))


def _programs(run: int) -> dict[str, int]:
    """Return the process IDs of the measured programs of this run: iperf3's client and server."""
    found: dict[str, int] = {}
    parents: dict[int, int] = {}
    words: dict[int, list[str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            pid = int(folder.name)
            parents[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            words[pid] = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    for pid, own in words.items():
        role = next((word[2:] for word in own if word in ("--client", "--server")), None)
        if own[0].endswith("iperf3") and role and _is_below(pid, run, parents):
            found.setdefault(role, pid)
    return found


def _is_below(pid: int, top: int, parents: Mapping[int, int]) -> bool:
    while pid > 1 and pid != top:
        pid = parents.get(pid, 0)
    return pid == top


if __name__ == "__main__":
    main()
