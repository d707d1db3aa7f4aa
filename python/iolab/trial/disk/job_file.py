"""A job file of fio that a user wrote, read as fio reads it: its sections, and everything that iolab does not accept.

fio gets none of this text: `section_runs` writes a file of its own from the keys and values that were read here. A line
that fio could read in another way than this module is refused.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from iolab.experiment.model.files import MOST_SECTIONS
from iolab.trial.disk.job_keys import KEYS, NO_REAL_TIME, Key, Use, key_of

BLANK = " \t\r\v\f"
"""What fio strips around a line (isspace of C, without the line's end)."""
LONGEST_LINE = 4000
"""fio cuts a line into two at 4095 bytes."""
LONGEST_NAME = 100
MOST: Mapping[str, int] = {"numjobs": 512, "iodepth": 1 << 16, "verify_async": 64}
"""Of keys that cost memory and threads of the machine."""
GLOBAL = "global"
OURS = ""
"""The value of a key that `replace` names: none of fio's is empty."""
_UNITS: Mapping[str, int] = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DECIMAL_UNITS: Mapping[str, int] = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_TIME_UNITS: Mapping[str, int] = {
    "us": 1_000, "usec": 1_000, "ms": 10**6, "msec": 10**6, "": 10**9, "s": 10**9, "sec": 10**9, "m": 60 * 10**9,
    "h": 3600 * 10**9, "d": 86400 * 10**9,
}  # fmt: skip
"""[ns]"""


@dataclass(frozen=True, slots=True)
class JobProblem:
    """One thing of a job file that is not accepted."""

    seen: str
    """Line, section, and what stands there."""
    allowed: str
    """What may stand there, or why this may not."""
    advice: str = ""
    """What to do."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """A key of which iolab has its own value."""

    section: str
    """As the file names it."""
    key: str
    """As fio writes it."""
    value: str
    """As the file has it; empty: none."""
    instead: str
    """What iolab has in its place, in words."""


@dataclass(frozen=True, slots=True)
class Section:
    """One section, with what it has from `[global]`."""

    name: str
    """As the file has it; of several with one name the second ends in #2, and so on."""
    own_name: str
    """As fio compares it."""
    line: int
    """Where it begins, from 1."""
    options: Mapping[str, str | None]
    """What is passed on, in the order in which fio reads it; None: the key stands alone; OURS: iolab has the value."""

    def is_on(self, key: str) -> bool:
        """Whether a switch is on."""
        return key in self.options and self.options[key] in (None, "1")

    @property
    def jobs(self) -> int:
        """Return how many processes or threads it has."""
        return int(self.options.get("numjobs") or 1)

    @property
    def buffer_bytes(self) -> int:
        """Return how much memory its reads and writes take that are in flight at once [bytes]."""
        texts = (self.options.get(key) or "" for key in ("bs", "bsrange", "bssplit"))
        words = (word.partition("/")[0] for text in texts for word in re.split("[,:-]", text))
        block = max((number(word) for word in words if word), default=4096)
        return block * int(self.options.get("iodepth") or 1) * self.jobs

    def time_ns(self, key: str) -> int:
        """Return a time; 0: it has none [ns]."""
        return time_ns((self.options.get(key) or "0").partition("-")[0])


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file that iolab accepts."""

    sections: tuple[Section, ...]
    """In their order."""
    replaced: tuple[Replaced, ...]
    """Keys of which iolab has its own value."""


class JobFileError(ValueError):
    """A job file that iolab does not accept."""

    def __init__(self, problems: Collection[JobProblem]) -> None:
        """Keep every problem."""
        super().__init__("; ".join(f"{one.seen}: {one.allowed}" for one in problems))
        self.problems = tuple(problems)


def read_job(text: str, replace: Collection[str] = ()) -> JobFile:
    """Read a job file as fio does; keys that `replace` names are left to iolab.

    Raises:
        JobFileError: something in it is not accepted; it has every problem.
    """
    reader = _Reader(frozenset(KEYS[name].name for name in replace if name in KEYS))
    for number, raw in enumerate(text.split("\n"), 1):
        reader.take(number, raw)
    return reader.finish()


@dataclass(slots=True)
class _Reader:
    """The state between two lines."""

    replace: frozenset[str]
    problems: list[JobProblem] = field(default_factory=list)
    replaced: list[Replaced] = field(default_factory=list)
    common: dict[str, str | None] = field(default_factory=dict)
    """What `[global]` says so far."""
    sections: list[Section] = field(default_factory=list)
    name: str | None = None
    """Of the section that is read; None: none began."""
    begin: int = 0
    options: dict[str, str | None] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    """Keys of the section, and their lines."""
    grouped: bool = False
    """Whether the file makes groups of its own for reporting."""

    def take(self, number: int, raw: str) -> None:
        """Read one line."""
        bare = raw.strip(BLANK)
        if not bare or bare[0] in ";#":
            return
        odd = next((letter for letter in bare if (letter < " " and letter != "\t") or letter == "\x7f"), None)
        if odd is not None:
            self._refuse(number, repr(odd), "text without control characters")
            return
        if len(raw.encode(errors="replace")) > LONGEST_LINE:
            self._refuse(
                number,
                f"{len(raw)} characters",
                f"at most {LONGEST_LINE} bytes, because fio splits longer lines",
            )
            return
        line = re.split("[;#]", bare, maxsplit=1)[0].rstrip(BLANK)
        if line.startswith("["):
            self._end_section()
            self._begin_section(number, line)
        elif self.name is None:
            self._refuse(number, line, "a section before the first key", "write [NAME] above it")
        else:
            self._take_option(number, line)

    def _begin_section(self, number: int, line: str) -> None:
        name = line[1:-1]
        self.name, self.begin, self.options, self.written = name, number, {}, {}
        if not line.endswith("]") or not name.strip(BLANK) or re.search(r"[\[\]]", name):
            self._refuse(number, line, "[NAME] alone on its line", "only a comment may follow the bracket")
        elif len(name) > LONGEST_NAME or not name.isprintable():
            self._refuse(
                number, line[:LONGEST_NAME], f"a name of at most {LONGEST_NAME} printable characters"
            )
        elif name != GLOBAL and name.lower().startswith(GLOBAL):
            allowed = "a name that does not begin with global: fio reads such a section as [global]"
            self._refuse(number, line, allowed, "write [global], or another name")

    def _take_option(self, number: int, line: str) -> None:
        word, equals, value = line.partition("=")
        word = word.rstrip(BLANK)
        key = KEYS["include"] if word.startswith("include") else key_of(word)
        if key is None:
            self._refuse(number, line, "a known key", f"see the table of keys: {DOCUMENTED}")
        elif key.name in self.replace:
            self.replaced.append(Replaced(self.name or "", key.name, value.strip(BLANK), key.instead))
            if key.use is Use.PASSED:
                self.options[key.name] = OURS
        elif key.use is Use.SET and not (key.name in HARMLESS and value in HARMLESS[key.name]):
            advice = f"write `replace: [{key.name}]` next to the job, or remove the line"
            self._refuse(number, line, f"{key.name} is set by iolab: {key.reason}", advice)
        elif key.use is Use.REFUSED:
            self._refuse(number, line, f"no {key.name}: {key.reason}", "remove the line")
        elif key.name == "new_group":
            self.grouped = True
        elif key.use is Use.PASSED:
            self._pass_on(number, line, key, value if equals else None)

    def _pass_on(self, number: int, line: str, key: Key, value: str | None) -> None:
        values = key.values
        assert values is not None
        instead = f", or `replace: [{key.name}]`" if key.instead else ""
        if key.name in self.written and key.name in ADDED_UP:
            advice = f"remove line {self.written[key.name]} or line {number}"
            self._refuse(number, line, f"{key.name} once in a section", advice)
        elif value is not None and value[:1] in (" ", "\t"):
            allowed = "no space after =: fio reads it as part of the value"
            self._refuse(number, line, allowed, f"write {key.name}={value.strip(BLANK)}")
        elif not (values.bare if value is None else value and values.pattern.fullmatch(value)):
            self._refuse(number, line, f"{key.name}: {values.allowed}", f"write one of these{instead}")
        else:
            self.options.pop(key.name, None)  # the later line counts, at its place
            self.options[key.name] = value
        self.written[key.name] = number

    def _end_section(self) -> None:
        """Keep what was read since the last section began."""
        if self.name is None:
            return
        if self.name == GLOBAL:
            self.common = _over(self.common, self.options)
            return
        bare, taken = " ".join(self.name.split()), {one.name for one in self.sections}
        names = (bare if twin == 1 else f"{bare}#{twin}" for twin in count(1))
        label = next(name for name in names if name not in taken)
        section = Section(label, self.name, self.begin, _over(self.common, self.options))
        self.problems += _section_problems(section, self.sections)
        self.sections.append(section)

    def finish(self) -> JobFile:
        """Return what was read. Raises JobFileError."""
        self._end_section()
        if not 1 <= len(self.sections) <= MOST_SECTIONS:
            allowed = f"1 to {MOST_SECTIONS} sections beside [global]"
            self.problems.append(
                JobProblem(f"{len(self.sections)} sections", allowed, "write [NAME] and its keys")
            )
        if self.grouped and any(one.is_on("exitall") for one in self.sections):
            self.problems.append(JobProblem("exitall and new_group", "one of them", "remove one of the two"))
        if self.problems:
            raise JobFileError(self.problems)
        return JobFile(tuple(self.sections), tuple(self.replaced))

    def _refuse(self, number: int, seen: str, allowed: str, advice: str = "") -> None:
        place = f"line {number} of the job" + (f", [{self.name}]" if self.name else "")
        self.problems.append(JobProblem(f"{place}: {seen}", allowed, advice))


ADDED_UP = frozenset({"bssplit", "random_distribution", "verify_pattern", "buffer_pattern", "cpus_allowed"})
"""Keys of which a second line may not simply take the place of the first."""
DOCUMENTED = "docs/how-to/measure-a-disk.md"
"""Where every key is listed."""
HARMLESS: Mapping[str, frozenset[str]] = {
    "unlink": frozenset({"0"}), "unlink_each_loop": frozenset({"0"}), "allow_file_create": frozenset({"0"}),
    "verify_dump": frozenset({"0"}), "verify_state_save": frozenset({"0"}), "verify_state_load": frozenset({"0"}),
    "lockfile": frozenset({"none"}), "create_on_open": frozenset({"0"}), "nrfiles": frozenset({"1"}),
}  # fmt: skip
"""Values that are iolab's own."""


def _over(common: Mapping[str, str | None], own: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return what a section says with what it has from [global], in the order in which fio reads both."""
    return {**{key: value for key, value in common.items() if key not in own}, **own}


def _section_problems(section: Section, before: Collection[Section]) -> Iterator[JobProblem]:
    place = f"line {section.line} of the job, [{section.name}]"
    for key, most in MOST.items():
        value = section.options.get(key)
        least = 0 if key == "verify_async" else 1
        if value is not None and not least <= int(value) <= most:
            yield JobProblem(f"{place}: {key}={value}", f"{least} to {most}", f"write a smaller {key}")
    awaited = section.options.get("wait_for")
    if awaited is not None and sum(one.own_name == awaited for one in before) != 1:
        allowed = "the name of exactly one earlier section"
        yield JobProblem(
            f"{place}: wait_for={awaited}", allowed, "give each section its own name, or use stonewall"
        )
    percentage, class_ = section.options.get("cmdprio_percentage"), section.options.get("cmdprio_class")
    if percentage not in (None, OURS, "0") and not class_:
        yield JobProblem(
            f"{place}: cmdprio_percentage={percentage} alone",
            f"cmdprio_class=2 or 3 beside it: fio's default is 1, and {NO_REAL_TIME}",
            "write cmdprio_class=2, or `replace: [cmdprio_percentage]`",
        )
    if section.is_on("time_based") and section.options.get("runtime") is None:
        yield JobProblem(
            f"{place}: time_based", "a runtime beside it", "write runtime=10s, or `replace: [runtime]`"
        )


def number(text: str) -> int:
    """Return what fio reads in a number with a unit: k, kb and ki are 1024 with it, and kib is 1000."""
    found = re.fullmatch(r"([0-9]+)([kmgt]?)(i?)(b?)", text.lower())
    if found is None:
        raise ValueError(f"no number: {text!r}")
    digits, unit, binary, byte = found.groups()
    return int(digits) * (_DECIMAL_UNITS if binary and byte else _UNITS)[unit]


def time_ns(text: str) -> int:
    """Return what fio reads in a time, seconds where there is no unit [ns]."""
    found = re.fullmatch(r"([0-9]+)([a-z]*)", text)
    if found is None or found[2] not in _TIME_UNITS:
        raise ValueError(f"no time: {text!r}")
    return int(found[1]) * _TIME_UNITS[found[2]]
