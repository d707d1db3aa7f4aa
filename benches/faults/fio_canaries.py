"""Run users' job files as iolab does, and record what fio opens for writing and executes.

Usage: python -m benches.faults.fio_canaries COUNT [FIO [SEED [confined]]]. Needs root, strace and free loop devices.
Takes mutated job files (benches/faults/fio_jobs.py) and adds to each file keys that refer to a canary file, a canary
device and a canary program; `replace` lets iolab set these keys. COUNT of the files that iolab accepts are run with
strace:
without any confinement of fio, or, with `confined`, by an agent as in a trial, on a loop device. Prints each call that
opens a file for writing, executes a program or changes an object, except the measured file and the folder of logs, even
if the call fails, and prints counts at the end; the exit status is 1 if there is such a call.
"""

import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from benches.faults.fio_jobs import CANARY_KEYS, PATHS, REGION, WORKERS, job_text, measure_of
from benches.harness.arguments import Argument, arguments
from benches.harness.programs import output

from iolab.agent.client import Agent, Refused
from iolab.agent.transport import AGENT_ENV, find_agent
from iolab.run.hosts.host_agent import open_agent
from iolab.trial.disk.job_file import JobFileError, read_job
from iolab.trial.disk.job_keys import REPLACEABLE
from iolab.trial.disk.section_runs import run_problems, runs_of

ARGUMENTS = (
    Argument("count", 100, "job files that are run"),
    Argument("fio", "/usr/bin/fio", "the program"),
    Argument("seed", 1, "of the mutations"),
    Argument("how", "", "by an agent, as in a trial", allowed=("confined",)),
)
LEFT = tuple(sorted(REPLACEABLE & {*CANARY_KEYS}))
"""Keys that iolab sets."""


def loop_device(file: Path) -> str:
    """Attach a loop device to a file and return it."""
    return output("losetup", "--find", "--show", str(file)).strip()


class Canaries:
    """A file, a device and a program that no job may touch, with their original contents."""

    def __init__(self, folder: Path) -> None:
        self.file, self.disk, self.flag = folder / "canary", folder / "canary.disk", folder / "ran"
        self.program = folder / "canary.sh"
        self.file.write_text("precious")
        self.disk.write_bytes(random.Random(1).randbytes(1 << 20))
        self.program.write_text(f"#!/bin/sh\necho ran >> {self.flag}\n")
        self.program.chmod(0o755)
        self.device = loop_device(self.disk)
        self._before = self._state()

    def _state(self) -> tuple[object, ...]:
        output("sync", self.device)
        device = sha256(Path(self.device).read_bytes()).hexdigest()
        return (
            self.file.read_text(),
            self.file.stat().st_mtime_ns,
            device,
            self.flag.exists(),
            self.program.read_text(),
        )

    def touched(self) -> bool:
        """Whether a canary has changed."""
        return self._state() != self._before

    def hostile(self, text: str, chance: random.Random) -> str:
        """Return a job file whose sections contain keys that lead to the canaries."""
        lines = text.split("\n")
        for _ in range(chance.randint(1, 3)):
            places = [at + 1 for at, line in enumerate(lines) if line.strip().startswith("[")] or [len(lines)]
            where = chance.choice((self.file, self.device, self.program))
            blank = chance.choice(("", "  ", "\t"))
            lines.insert(chance.choice(places), f"{blank}{chance.choice(CANARY_KEYS)}={where}")
        return "\n".join(lines).replace("/CANARY.sh", str(self.program)).replace("/CANARY", str(self.file))

    def remove(self) -> None:
        """Detach the loop device."""
        output("losetup", "--detach", self.device)


OPENED = re.compile(r'(?:open|openat|openat2|creat)\((?:AT_FDCWD, )?"([^"]*)", ?(?:\{flags=)?([A-Z_|0-9]+)')
CALLS = (
    "execve", "execveat", "unlink", "unlinkat", "rename", "renameat", "renameat2", "link", "linkat", "symlink",
    "symlinkat", "mknod", "mknodat", "truncate", "mount", "chmod", "chown", "fchmodat", "fchownat", "mkdir", "mkdirat",
    "connect", "bind",
)  # fmt: skip
OTHER = re.compile(rf"\b({'|'.join(CALLS)})\((.*)")
TRACED = ",".join(("open", "openat", "openat2", "creat", *CALLS))


def touches(trace: str, allowed: Sequence[str], *, first: bool) -> Iterator[str]:
    """Return accesses of a traced run outside its permitted files; `first`: the trace begins with its own execve."""
    for line in trace.split("\n"):
        opened, other = OPENED.search(line), OTHER.search(line)
        if opened and re.search("O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", opened[2]):
            if not opened[1].startswith(tuple(allowed)):
                yield line
        elif other and other[1] == "execve" and first:
            first = False
        elif other and not any(f'"{word}' in other[2] for word in allowed):
            yield line


def main(count: int, fio: str, seed: int, *, confined: bool) -> int:
    """Run COUNT accepted job files under strace; return the exit code."""
    results: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        folder.chmod(0o755)
        canaries = Canaries(folder)
        try:
            found = accepted(canaries, seed, count)
            for kind, lines in ran_confined(fio, folder, found) if confined else ran(fio, folder, found):
                results[kind] += 1
                results["touches"] += len(lines)
                for line in lines:
                    print(line, flush=True)
                if not results["done"] + results["failed"] & 1023:
                    print(dict(results), flush=True)
            results["canaries touched"] = int(canaries.touched())
        finally:
            canaries.remove()
    print(f"{count} job files ran{' confined' if confined else ''}: {dict(results)}")
    return 1 if results["touches"] or results["canaries touched"] else 0


Items = Iterator[tuple[int, str]]
Results = Iterator[tuple[str, list[str]]]


def ran(fio: str, folder: Path, found: Items) -> Results:
    """Run job files as a user of this host."""
    with ThreadPoolExecutor(WORKERS) as pool:
        yield from pool.map(lambda item: traced(fio, item, folder), found)


def accepted(canaries: Canaries, seed: int, count: int) -> Iterator[tuple[int, str]]:
    """Yield COUNT job files that iolab accepts if `replace` lists the keys of the canaries."""
    number = found = 0
    while found < count:
        chance = random.Random(seed * 10_000_019 + number)
        text = canaries.hostile(job_text(chance), chance)
        number += 1
        try:
            job = read_job(text, LEFT)
        except JobFileError:
            continue
        if not any(run_problems(job, REGION)):
            found += 1
            yield found, text


def traced(fio: str, item: tuple[int, str], folder: Path) -> tuple[str, list[str]]:
    """Run one job file as iolab does; return its exit status and the files that it touched."""
    number, text = item
    target, logs, trace = folder / f"{number}.target", folder / f"{number}.logs", folder / f"{number}.trace"
    measure = measure_of(text, *LEFT)
    logs.mkdir()
    bad: list[str] = []
    ended = "done"
    for job in runs_of(
        read_job(text, measure.fio.replace if measure.fio else ()), measure, str(target), str(logs)
    ):
        target.write_bytes(random.Random(number).randbytes(REGION))
        # Jobs of fio have separate sessions; when fio is killed, they end with their PID namespace.
        argv = ("unshare", "--pid", "--fork", "--kill-child", "timeout", "-s", "KILL", "20",
                "strace", "-f", "--seccomp-bpf", "-qq", "-e", f"trace={TRACED}", "-o", str(trace),
                fio, "--output-format=json+", "--eta=never", "-")  # fmt: skip
        done = subprocess.run(
            argv,
            input=job.text.encode(),
            capture_output=True,
            check=False,
            cwd=folder,
            env=PATHS,
        )
        ended = ended if done.returncode == 0 else "failed"
        if not trace.exists():
            return "never began", bad  # on a busy host
        # fio creates the folder of its file, which exists.
        allowed = (str(target), f"{logs}/", "/dev/null", f'{folder}", 0700) = -1 EEXIST')
        bad += touches(trace.read_text(errors="replace"), allowed, first=True)
    for path in (target, trace, *logs.iterdir()):
        path.unlink(missing_ok=True)
    logs.rmdir()
    return ended, [f"{line}\n{text!r}" for line in bad]


# Confined -----------------------------------------------------------------------------------------------------

CLONES = ("clone", "clone3", "fork", "vfork")
BORN = re.compile(
    rf"^([0-9]+) +(?:<\.\.\. )?(?:{'|'.join(CLONES)})\b.* = ([0-9]+)(?: /\* ([0-9]+) in strace's PID NS \*/)?$"
)
"""Creation of a child process; in a separate PID namespace, the child has one number inside and one outside."""
BEGUN = re.compile(r"^([0-9]+) +execveat\(")
PATIENCE_MS = 10_000
PROCESS = "canary"


@dataclass(slots=True)
class Trace:
    """The strace output of an agent and all its child processes."""

    path: Path
    read_bytes: int = 0

    def of_program(self) -> str:
        """Return the program's actions since the last call: after its execveat, with child processes."""
        with self.path.open("rb") as file:
            file.seek(self.read_bytes)
            data = file.read()
        self.read_bytes += len(data)
        family: set[str] = set()
        lines: list[str] = []
        for line in data.decode(errors="replace").split("\n"):
            pid = line.split(" ", 1)[0]
            if pid in family:
                lines.append(line)
            if (begun := BEGUN.match(line)) and not family:
                family.add(begun[1])
            if (born := BORN.match(line)) and born[1] in family:
                family.add(born[3] or born[2])
        assert family, "the trace has no program"
        return re.sub(" {2,}", " ", "\n".join(lines))  # results are aligned


@contextmanager
def traced_agent(folder: Path) -> Iterator[tuple[Agent, Trace]]:
    """Start an agent with strace."""
    trace, script = Trace(folder / "agent.trace"), folder / "agent"
    calls = ",".join((TRACED, *CLONES))
    strace = f"strace -f --pidns-translation --seccomp-bpf -qq -e trace={calls} -o {trace.path}"
    script.write_text(f'#!/bin/sh\nexec {strace} {find_agent()} "$@"\n')
    script.chmod(0o755)
    os.environ[AGENT_ENV] = str(script)
    with open_agent() as agent:
        yield agent, trace


def ran_confined(fio: str, folder: Path, found: Items) -> Results:
    """Run job files by an agent, like a trial."""
    target = folder / "target"
    target.write_bytes(bytes(REGION))
    device = loop_device(target)
    try:
        with traced_agent(folder) as (agent, trace):
            for item in found:
                yield traced_confined(fio, item, folder, device, agent, trace)
    finally:
        output("losetup", "--detach", device)


def traced_confined(
    fio: str, item: tuple[int, str], folder: Path, device: str, agent: Agent, trace: Trace
) -> tuple[str, list[str]]:
    """Run one job file confined; return its exit status and the files that it touched or tried to touch."""
    number, text = item
    logs = folder / f"{number}.logs"
    measure = measure_of(text, *LEFT)
    logs.mkdir()
    bad: list[str] = []
    ended = "done"
    job = read_job(text, measure.fio.replace if measure.fio else ())
    for run in runs_of(job, measure, device, str(logs)):
        argv = (fio, "--output-format=json+", "--eta=never", "-")
        reaches = {"devices": [device], "folders": [str(logs)]}
        agent.start(PROCESS, argv, stdin=run.text, confined=reaches)
        try:
            ended = ended if agent.wait(PROCESS, PATIENCE_MS).exit_status == 0 else "failed"
        except Refused:
            ended = "failed"
            agent.call("process.stop", {"id": PROCESS, "signal": "KILL"})
        exists = f'{Path(device).parent}", 0700) = -1 EEXIST'
        bad += touches(trace.of_program(), (device, f"{logs}/", "/dev/null", exists), first=False)
    for path in logs.iterdir():
        path.unlink()
    logs.rmdir()
    return ended, [f"{line}\n{text!r}" for line in bad]


if __name__ == "__main__":
    asked = arguments(__doc__, *ARGUMENTS)
    sys.exit(main(asked.count, asked.fio, asked.seed, confined=asked.how == "confined"))
