"""Kernel profiles, which perf records during a measure and folds on the machine where they were recorded."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from iolab.agent.client import REPLY_SLACK_S, Agent, Refused
from iolab.agent.messages import FolderMade, ProcessEnded
from iolab.errors import AgentError
from iolab.experiment.model.instruments import Profile
from iolab.lab.requirements.part_needs import profiled_kernels
from iolab.locale import Phrase
from iolab.messages.instrument_warnings import (
    LocksUnseen,
    ProfileCostly,
    ProfileCut,
    ProfileFailed,
    ProfileHidden,
    ProfileLost,
)
from iolab.messages.places import computer
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Dimensions, Metric
from iolab.trial.instruments.instrument import Seen
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Failed

MOST_FUNCTIONS = 10
"""Maximum number of functions per kernel in the metrics; the file in the samples folder has all functions."""
LEAST_RATIO = 0.002
"""Minimum share of a CPU for a function's metric; a smaller share may be due to chance [ratio]."""
IDLE = "swapper"
"""Kernel name of the idle thread."""
HIDDEN = "[kernel]"
"""Replacement for functions whose name the kernel hides."""
UNITS_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
MOST_LOCKS = 5
"""Maximum number of functions with lock waits in the metrics; those with the longest waits are listed."""


@dataclass(frozen=True, slots=True)
class Stacks:
    """Samples of one kernel."""

    counts: Mapping[tuple[str, ...], int]
    """Number of samples by stack: the thread, then functions from the outermost to the running one."""
    lost: int
    """Samples that did not fit into the kernel's buffer."""
    span_ns: int
    """Time from the first to the last sample [ns]."""

    @property
    def samples(self) -> int:
        """Return the total number of samples."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Waited:
    """Lock waits in one function of the kernel."""

    caller: str
    """Function that waited."""
    kind: str
    """Lock type: spinlock, mutex, rwsem:R, ..."""
    contended: int
    """Number of waits."""
    total_ns: float
    """Total waiting time [ns]."""


START_MS = 30_000
STOP_MS = 10_000
"""Timeout until perf has written its buffers [ms]."""
READ_MS = 180_000
"""Timeout for reading perf's file [ms]: an emulated guest takes a minute to resolve function names."""
MOST_BYTES = 32 << 20
"""Maximum size of each file [bytes], stored in the memory of the profiled kernel."""
HIDDEN_RATIO = 0.05
COSTLY_RATIO = 0.02
"""Minimum CPU use at which the profiler may change the trial's results [CPUs]."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Location of a kernel's profile."""

    kernel: str
    agent: Agent
    folder: str


class KernelProfiles:
    """Profilers on several kernels, one per kernel."""

    def __init__(
        self, agent_of: Callable[[str], Agent], asked: Profile, kernels: Sequence[str], name: str
    ) -> None:
        self._agent_of = agent_of
        self._asked = asked
        self._kernels = kernels
        self._name = name
        self._places: list[_Place] = []

    def start(self) -> None:
        """Start profiling. Raises TrialFailed and AgentError."""
        asked = self._asked
        for kernel in self._kernels:
            agent = self._agent_of(kernel)
            folder = agent.ask(FolderMade, "folder.create", {"name": self._name}).path
            self._places.append(_Place(kernel, agent, folder))
            words = ("sh", "-c", RECORD, folder, str(asked.frequency), asked.event, str(MOST_BYTES))
            self._begin(kernel, self._name, words)
            if asked.locks == "on":
                self._begin(kernel, self._locks, ("sh", "-c", RECORD_LOCKS, folder, str(MOST_BYTES)))

    def stop(self) -> Seen:
        """Stop profiling, and return the CPU use per function. Raises TrialFailed and AgentError."""
        ended = [(place, self._ended(place, self._name)) for place in self._places]
        waits = [(p, self._ended(p, self._locks)) for p in self._places] if self._asked.locks == "on" else []
        metrics: list[Metric] = []
        warnings: list[TrialWarning] = []
        files: dict[str, bytes] = {}
        for place, process in ended:
            text = self._read(place, FOLD)
            metrics += (*_metrics(place.kernel, text, process, self._asked),)
            warnings += _warnings(place.kernel, text, process)
            files[f"profile{place.kernel and f'.{place.kernel}'}.folded"] = text.encode()
        for place, process in waits:
            unseen = process.exit_status not in (0, None) or process.signal == 9
            if unseen:
                warnings.append(LocksUnseen(host=computer(place.kernel), said=process.stderr.strip()[-300:]))
            else:
                metrics += wait_metrics(place.kernel, waits_in(self._read(place, LOCKS)))
        self.abandon()
        return Seen(metrics=tuple(metrics), warnings=tuple(warnings), files=files)

    def abandon(self) -> None:
        """Stop all profilers and delete their files."""
        for place in self._places:
            for name in (self._name, self._locks):
                with suppress(AgentError):
                    place.agent.call("process.stop", {"id": name, "grace_ms": 0})
            with suppress(AgentError):
                place.agent.call("folder.delete", {"name": self._name})
        self._places.clear()

    @property
    def _locks(self) -> str:
        return f"{self._name}-locks"

    def _begin(self, kernel: str, name: str, words: Sequence[str]) -> None:
        try:
            self._agent_of(kernel).start(
                name, words, timeout_ms=START_MS, ready={"kind": "output", "contains": "sampling"}
            )
        except Refused as error:
            raise Failed(ProfileFailed(host=computer(kernel), said=str(error))) from error

    def _ended(self, place: _Place, name: str) -> ProcessEnded:
        params = {"id": name, "grace_ms": STOP_MS}
        return place.agent.ask(ProcessEnded, "process.stop", params, STOP_MS / 1000 + REPLY_SLACK_S)

    def _read(self, place: _Place, script: str) -> str:
        done = place.agent.run(("sh", "-c", script, place.folder), timeout_ms=READ_MS)
        if not done.succeeded or done.timed_out:
            said = done.stderr.strip()[-300:] or str(
                Phrase("trial.perf-script-too-slow", seconds=READ_MS // 1000)
            )
            raise Failed(ProfileFailed(host=computer(place.kernel), said=said))
        return done.stdout


def profile_of(site: Site, asked: Profile) -> KernelProfiles:
    """Return the profilers for a lab."""
    return KernelProfiles(
        site.agent_of, asked, profiled_kernels(site.lab, asked.on), f"profile{site.part and '-' + site.part}"
    )


def _metrics(kernel: str, text: str, process: ProcessEnded, asked: Profile) -> Iterator[Metric]:
    yield from function_metrics(kernel, stacks_in(text), asked.frequency)
    yield Metric.of("profiler_cpu_ratio", _cost(process), Dimensions(machine=kernel or None))


def _warnings(kernel: str, text: str, process: ProcessEnded) -> Iterator[TrialWarning]:
    found = stacks_in(text)
    if found.lost:
        yield ProfileLost(host=computer(kernel), lost_samples=found.lost, kept_samples=found.samples)
    if "size limit" in process.stderr:
        yield ProfileCut(host=computer(kernel), limit_bytes=MOST_BYTES)
    if (hidden := hidden_ratio(found)) > HIDDEN_RATIO:
        yield ProfileHidden(host=computer(kernel), hidden_ratio=hidden)
    if (cost := _cost(process)) > COSTLY_RATIO:
        yield ProfileCostly(host=computer(kernel), cpu_ratio=cost)


def _cost(process: ProcessEnded) -> float:
    """Return the CPU use of a profiler [CPUs]."""
    return (process.cpu_user_ns + process.cpu_system_ns) / max(1, process.end_ns - process.begin_ns)


def stacks_in(text: str) -> Stacks:
    """Return the samples of a folded profile; its first line has totals."""
    head, *lines = text.splitlines() or ["# 0 0"]
    numbers = head.lstrip("# ").split()
    lost, span_ns = (int(float(each)) for each in [*numbers, "0", "0"][:2])
    counts: Counter[tuple[str, ...]] = Counter()
    for line in lines:
        count, _, stack = line.partition("\t")
        if count.isdecimal() and stack:
            counts[tuple(stack.split(";"))] += int(count)
    return Stacks(counts, lost, span_ns)


def functions(found: Stacks, frequency_hz: int) -> list[tuple[str, str, float]]:
    """Return threads and functions with the CPU use of the function itself [CPUs], highest first; idle threads are
    excluded."""
    own: Counter[tuple[str, str]] = Counter()
    for (thread, *stack), count in found.counts.items():
        if not thread.startswith(IDLE):
            own[thread, stack[-1] if stack else thread] += count
    whole = frequency_hz * found.span_ns / 1e9
    ranked = sorted(own.items(), key=lambda each: (-each[1], each[0]))
    return [(*of, count / whole) for of, count in ranked] if whole > 0 else []


def function_metrics(machine: str, found: Stacks, frequency_hz: int) -> Iterator[Metric]:
    """Yield the metrics of a kernel's profile."""
    about = machine or None
    for thread, function, ratio in functions(found, frequency_hz)[:MOST_FUNCTIONS]:
        if ratio >= LEAST_RATIO:
            of = Dimensions(machine=about, thread=thread, part=function)
            yield Metric.of("profile_self_ratio", ratio, of)
    yield Metric.of("profile_samples", found.samples, Dimensions(machine=about))
    yield Metric.of("profile_lost_samples", found.lost, Dimensions(machine=about))


def hidden_ratio(found: Stacks) -> float:
    """Return the share of kernel samples whose function name is hidden [ratio]."""
    own = [(stack[-1], count) for stack, count in found.counts.items() if len(stack) > 1]
    kernel = sum(count for function, count in own if function.endswith("_[k]") or function == HIDDEN)
    return sum(count for function, count in own if function == HIDDEN) / kernel if kernel else 0.0


def waits_in(text: str) -> list[Waited]:
    """Return the lock waits listed by `perf lock contention`, the longest first."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if (
            len(words) < 9 or not words[0].isdecimal() or words[2] not in UNITS_NS
        ):  # the line is a header or a note
            continue
        caller = words[8].partition("+0x")[0]
        found.append(Waited(caller, words[7], int(words[0]), float(words[1]) * UNITS_NS[words[2]]))
    return sorted(found, key=lambda one: -one.total_ns)


def wait_metrics(machine: str, found: Sequence[Waited]) -> Iterator[Metric]:
    """Yield the metrics of a kernel's lock waits."""
    about = machine or None
    yield Metric.of("lock_wait_ns", sum(one.total_ns for one in found), Dimensions(machine=about))
    by_place: Counter[str] = Counter()
    for one in found:
        by_place[f"{one.caller} ({one.kind})"] += round(one.total_ns)
    for place, total in by_place.most_common(MOST_LOCKS):
        yield Metric.of("lock_wait_ns", total, Dimensions(machine=about, part=place))


RECORD = """
event=$2
if [ "$event" = auto ]; then
    event=cpu-clock
    for pmu in /sys/bus/event_source/devices/cpu* /sys/bus/event_source/devices/armv8*; do
        [ -e "$pmu/type" ] && perf stat -e cycles -x, true 2>&1 | grep -q '^[0-9]' && event=cycles
    done
fi
echo "sampling $event"
exec perf record -q -a -g -F "$1" -e "$event" --max-size="$3"B -o "$0/perf.data"
"""
"""Script that samples every CPU until it is stopped."""
RECORD_LOCKS = """
echo sampling
exec perf record -q -a -g -e lock:contention_begin -e lock:contention_end --max-size="$1"B -o "$0/locks.data"
"""
FOLD = r"""
perf script -i "$0/perf.data" --show-lost-events -F comm,tid,time,ip,sym,dso 2>"$0/said" | awk '
    function flush() {
        if (thread != "" && stack != "") counts[thread ";" stack]++
        thread = ""; stack = ""
    }
    function plain(text) { gsub(/;/, ":", text); sub(/^[\t ]+/, "", text); return text }
    /PERF_RECORD_LOST/ { lost += $NF; next }
    /^\t/ {
        object = $NF; name = $0
        kernel = object ~ /^\(\[(kernel|k|guest\.kernel)/ || $1 ~ /^ffff/
        sub(/^[\t ]*[0-9a-f]+ /, "", name); sub(/ \([^()]*\)$/, "", name); name = plain(name)
        gsub(/^\(|\)$/, "", object); sub(/.*\//, "", object); gsub(/^\[|\]$/, "", object)
        if (name == "[unknown]") name = kernel ? "[kernel]" : "[" object "]"
        else if (kernel) name = name "_[k]"
        stack = stack == "" ? name : name ";" stack
        next
    }
    /^$/ { flush(); next }
    {
        flush(); thread = $0; at = $NF; sub(/:$/, "", at)
        if (first == "") first = at
        last = at
        sub(/ +[0-9.]+: *$/, "", thread); sub(/ +[0-9]+$/, "", thread); thread = plain(thread)
    }
    END {
        flush(); printf "# %d %.0f\n", lost, (last - first) * 1e9
        for (each in counts) print counts[each] "\t" each
    }
' | {
    IFS= read -r head && printf "%s\n" "$head"
    sort -k1,1nr | head -c 900000
}
[ -s "$0/perf.data" ] || { cat "$0/said" >&2; exit 1; }
"""
"""Script that prints the number of lost samples and their time span [ns], then the count of each stack, most common
first."""
LOCKS = r"""
perf lock contention -i "$0/locks.data" 2>&1 | head -n 200
"""
