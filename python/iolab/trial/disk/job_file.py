"""Parse a user's fio job file as fio does; return its sections, or everything that iolab refuses in it.

The text is not passed to fio: `section_runs` writes a separate file from the parsed keys and values. A line that fio
might parse differently is refused.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from iolab.experiment.model.files import MOST_SECTIONS
from iolab.locale import Phrase, Text, say
from iolab.trial.disk.job_keys import KEYS, NO_REAL_TIME, Key, Use, key_of

BLANK = " \t\r\v\f"
"""Characters that fio strips from lines (isspace of C, without the line end)."""
LONGEST_LINE = 4000
"""Maximum line length [bytes]: fio splits longer lines at 4095 bytes."""
LONGEST_NAME = 100
MOST: Mapping[str, int] = {"numjobs": 512, "iodepth": 1 << 16, "verify_async": 64}
"""Maximum values of keys that determine how much memory and how many threads fio uses."""
GLOBAL = "global"
OURS = ""
"""Value that marks a key listed in `replace`: the empty string, which no key of fio accepts."""
_UNITS: Mapping[str, int] = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DECIMAL_UNITS: Mapping[str, int] = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_TIME_UNITS: Mapping[str, int] = {
    "us": 1_000, "usec": 1_000, "ms": 10**6, "msec": 10**6, "": 10**9, "s": 10**9, "sec": 10**9, "m": 60 * 10**9,
    "h": 3600 * 10**9, "d": 86400 * 10**9,
}  # fmt: skip
"""Time units [ns]."""


@dataclass(frozen=True, slots=True)
class JobProblem:
    """A part of a job file that is not accepted."""

    seen: Text
    """Line and section in the file, and the refused text."""
    allowed: Text
    """Accepted values, or the reason for the refusal."""
    advice: Text = ""
    """Remedy."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """A key whose value iolab sets."""

    section: str
    """Section name in the file."""
    key: str
    """fio's spelling of the key."""
    value: str
    """Value in the file; empty: the key has no value."""


@dataclass(frozen=True, slots=True)
class Section:
    """One section, including its keys from `[global]`."""

    name: str
    """Unique name: a second section of this name gets the suffix #2, and so on."""
    own_name: str
    """Section name in the form in which fio compares names."""
    line: int
    """First line number, from 1."""
    options: Mapping[str, str | None]
    """Keys and values for fio, in fio's reading order; None: a key without value; OURS: iolab sets the value."""

    def is_on(self, key: str) -> bool:
        """Whether a boolean key is set."""
        return key in self.options and self.options[key] in (None, "1")

    @property
    def jobs(self) -> int:
        """Return the number of processes or threads."""
        return int(self.options.get("numjobs") or 1)

    @property
    def buffer_bytes(self) -> int:
        """Return the memory of the section's concurrent reads and writes [bytes]."""
        texts = (self.options.get(key) or "" for key in ("bs", "bsrange", "bssplit"))
        words = (word.partition("/")[0] for text in texts for word in re.split("[,:-]", text))
        block = max((number(word) for word in words if word), default=4096)
        return block * int(self.options.get("iodepth") or 1) * self.jobs

    def time_ns(self, key: str) -> int:
        """Return the time in a key [ns]; 0 if it is not set."""
        return time_ns((self.options.get(key) or "0").partition("-")[0])


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file that iolab accepts."""

    sections: tuple[Section, ...]
    """Sections in file order."""
    replaced: tuple[Replaced, ...]
    """Keys whose values iolab sets."""


class JobFileError(ValueError):
    """A job file that iolab does not accept."""

    def __init__(self, problems: Collection[JobProblem]) -> None:
        """Keep all problems."""
        super().__init__(*problems)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "; ".join(f"{say(one.seen)}: {say(one.allowed)}" for one in self.problems)


def read_job(text: str, replace: Collection[str] = ()) -> JobFile:
    """Parse a job file as fio does; iolab sets the keys listed in `replace`.

    Raises:
        JobFileError: a part of the file is not accepted; the error lists all problems.
    """
    reader = _Reader(frozenset(KEYS[name].name for name in replace if name in KEYS))
    for number, raw in enumerate(text.split("\n"), 1):
        reader.take(number, raw)
    return reader.finish()


@dataclass(slots=True)
class _Reader:
    """Parser state between two lines."""

    replace: frozenset[str]
    problems: list[JobProblem] = field(default_factory=list)
    replaced: list[Replaced] = field(default_factory=list)
    common: dict[str, str | None] = field(default_factory=dict)
    """Keys of `[global]` that were read so far."""
    sections: list[Section] = field(default_factory=list)
    name: str | None = None
    """Name of the current section; None: before the first one."""
    begin: int = 0
    options: dict[str, str | None] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    """Line numbers of the section's keys."""
    grouped: bool = False
    """Whether the file uses new_group."""

    def take(self, number: int, raw: str) -> None:
        """Parse one line."""
        bare = raw.strip(BLANK)
        if not bare or bare[0] in ";#":
            return
        odd = next((letter for letter in bare if (letter < " " and letter != "\t") or letter == "\x7f"), None)
        if odd is not None:
            self._refuse(number, repr(odd), Phrase("trial.text-without-control-characters"))
            return
        if len(raw.encode(errors="replace")) > LONGEST_LINE:
            allowed = Phrase("trial.bytes-of-a-line", most=LONGEST_LINE)
            self._refuse(number, Phrase("trial.count-of-characters", count=len(raw)), allowed)
            return
        line = re.split("[;#]", bare, maxsplit=1)[0].rstrip(BLANK)
        if line.startswith("["):
            self._end_section()
            self._begin_section(number, line)
        elif self.name is None:
            allowed = Phrase("trial.section-before-first-key")
            self._refuse(number, line, allowed, Phrase("trial.write-section-above"))
        else:
            self._take_option(number, line)

    def _begin_section(self, number: int, line: str) -> None:
        name = line[1:-1]
        self.name, self.begin, self.options, self.written = name, number, {}, {}
        if not line.endswith("]") or not name.strip(BLANK) or re.search(r"[\[\]]", name):
            advice = Phrase("trial.comment-behind-bracket")
            self._refuse(number, line, Phrase("trial.section-alone-on-line"), advice)
        elif len(name) > LONGEST_NAME or not name.isprintable():
            allowed = Phrase("trial.section-name-of-at-most", most=LONGEST_NAME)
            self._refuse(number, line[:LONGEST_NAME], allowed)
        elif name != GLOBAL and name.lower().startswith(GLOBAL):
            allowed = Phrase("trial.section-name-not-global")
            self._refuse(number, line, allowed, Phrase("trial.write-global-or-other-name"))

    def _take_option(self, number: int, line: str) -> None:
        word, equals, value = line.partition("=")
        word = word.rstrip(BLANK)
        key = KEYS["include"] if word.startswith("include") else key_of(word)
        if key is None:
            advice = Phrase("trial.see-table-of-keys", page=DOCUMENTED)
            self._refuse(number, line, Phrase("trial.a-known-key"), advice)
        elif key.name in self.replace:
            self.replaced.append(Replaced(self.name or "", key.name, value.strip(BLANK)))
            if key.use is Use.PASSED:
                self.options[key.name] = OURS
        elif key.use is Use.SET and not (key.name in HARMLESS and value in HARMLESS[key.name]):
            allowed = Phrase("trial.key-set-by-iolab", key=key.name, reason=key.reason)
            self._refuse(number, line, allowed, Phrase("trial.write-replace", key=key.name))
        elif key.use is Use.REFUSED:
            allowed = Phrase("trial.key-refused", key=key.name, reason=key.reason)
            self._refuse(number, line, allowed, Phrase("trial.remove-the-line"))
        elif key.name == "new_group":
            self.grouped = True
        elif key.use is Use.PASSED:
            self._pass_on(number, line, key, value if equals else None)

    def _pass_on(self, number: int, line: str, key: Key, value: str | None) -> None:
        values = key.values
        assert values is not None
        if key.name in self.written and key.name in ADDED_UP:
            advice = Phrase("trial.remove-one-of-two-lines", first=self.written[key.name], second=number)
            self._refuse(number, line, Phrase("trial.once-in-section", key=key.name), advice)
        elif value is not None and value[:1] in (" ", "\t"):
            advice = Phrase("trial.write-key-with-value", key=key.name, value=value.strip(BLANK))
            self._refuse(number, line, Phrase("trial.no-space-after-equals-sign"), advice)
        elif not (values.bare if value is None else value and values.pattern.fullmatch(value)):
            bare = Phrase("trial.write-one-of-these")
            replaced = Phrase("trial.write-one-of-these-or-replace", key=key.name)
            allowed = Phrase("trial.values-of-key", key=key.name, allowed=values.allowed)
            self._refuse(number, line, allowed, replaced if key.replaceable else bare)
        else:
            self.options.pop(key.name, None)  # the later line takes precedence, at its position
            self.options[key.name] = value
        self.written[key.name] = number

    def _end_section(self) -> None:
        """Store the section that ends here."""
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
        """Return the parsed file. Raises JobFileError."""
        self._end_section()
        if not 1 <= len(self.sections) <= MOST_SECTIONS:
            seen = Phrase("trial.count-of-sections", count=len(self.sections))
            allowed = Phrase("trial.number-of-sections", most=MOST_SECTIONS)
            self.problems.append(JobProblem(seen, allowed, Phrase("trial.write-section")))
        if self.grouped and any(one.is_on("exitall") for one in self.sections):
            seen, allowed = Phrase("trial.exitall-with-new-group"), Phrase("check.one-of-the-two")
            self.problems.append(JobProblem(seen, allowed, Phrase("trial.remove-one-of-the-two")))
        if self.problems:
            raise JobFileError(self.problems)
        return JobFile(tuple(self.sections), tuple(self.replaced))

    def _refuse(self, number: int, seen: Text, allowed: Text, advice: Text = "") -> None:
        place = place_of(number, self.name) if self.name else Phrase("trial.line-of-job", line=number)
        self.problems.append(JobProblem(seen_at(place, seen), allowed, advice))


def place_of(line: int, section: str) -> Phrase:
    """Return the phrase that names a line of a section in messages."""
    return Phrase("trial.line-of-section", line=line, section=section)


def seen_at(place: Text, seen: Text) -> Phrase:
    """Return the phrase that shows the text at a place in a job file."""
    return Phrase("trial.seen-at-place", place=place, seen=seen)


ADDED_UP = frozenset({"bssplit", "random_distribution", "verify_pattern", "buffer_pattern", "cpus_allowed"})
"""Keys for which fio combines repeated lines; for other keys, a later line replaces an earlier one."""
DOCUMENTED = "docs/how-to/measure-a-disk.md"
"""Documentation page that lists all keys."""
HARMLESS: Mapping[str, frozenset[str]] = {
    "unlink": frozenset({"0"}), "unlink_each_loop": frozenset({"0"}), "allow_file_create": frozenset({"0"}),
    "verify_dump": frozenset({"0"}), "verify_state_save": frozenset({"0"}), "verify_state_load": frozenset({"0"}),
    "lockfile": frozenset({"none"}), "create_on_open": frozenset({"0"}), "nrfiles": frozenset({"1"}),
}  # fmt: skip
"""Accepted values of keys that iolab sets: those equal to iolab's own."""


def _over(common: Mapping[str, str | None], own: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the keys of a section merged with [global], in fio's reading order."""
    return {**{key: value for key, value in common.items() if key not in own}, **own}


def _section_problems(section: Section, before: Collection[Section]) -> Iterator[JobProblem]:
    place = place_of(section.line, section.name)
    for key, most in MOST.items():
        value = section.options.get(key)
        least = 0 if key == "verify_async" else 1
        if value is not None and not least <= int(value) <= most:
            allowed = Phrase("trial.from-to", low=least, high=most)
            advice = Phrase("trial.write-smaller", key=key)
            yield JobProblem(seen_at(place, f"{key}={value}"), allowed, advice)
    awaited = section.options.get("wait_for")
    if awaited is not None and sum(one.own_name == awaited for one in before) != 1:
        allowed = Phrase("trial.name-of-one-earlier-section")
        advice = Phrase("trial.name-sections-or-stonewall")
        yield JobProblem(seen_at(place, f"wait_for={awaited}"), allowed, advice)
    percentage, class_ = section.options.get("cmdprio_percentage"), section.options.get("cmdprio_class")
    if percentage not in (None, OURS, "0") and not class_:
        seen = Phrase("trial.key-without-key", key=f"cmdprio_percentage={percentage}", other="cmdprio_class")
        allowed = Phrase("trial.class-with-percentage", reason=NO_REAL_TIME)
        advice = Phrase("trial.add-line-or-replace", line="cmdprio_class=2", key="cmdprio_percentage")
        yield JobProblem(seen_at(place, seen), allowed, advice)
    if section.is_on("time_based") and section.options.get("runtime") is None:
        seen = Phrase("trial.key-without-key", key="time_based", other="runtime")
        allowed = Phrase("trial.key-as-well", key="runtime")
        advice = Phrase("trial.add-line-or-replace", line="runtime=10s", key="runtime")
        yield JobProblem(seen_at(place, seen), allowed, advice)


def number(text: str) -> int:
    """Parse a number with unit as fio does: k, kb and ki are 1024, and kib is 1000."""
    found = re.fullmatch(r"([0-9]+)([kmgt]?)(i?)(b?)", text.lower())
    if found is None:
        raise ValueError(Phrase("trial.not-a-number-with-unit", text=repr(text)))
    digits, unit, binary, byte = found.groups()
    return int(digits) * (_DECIMAL_UNITS if binary and byte else _UNITS)[unit]


def time_ns(text: str) -> int:
    """Parse a time as fio does, in seconds if there is no unit [ns]."""
    found = re.fullmatch(r"([0-9]+)([a-z]*)", text)
    if found is None or found[2] not in _TIME_UNITS:
        raise ValueError(Phrase("trial.not-a-time", text=repr(text)))
    return int(found[1]) * _TIME_UNITS[found[2]]
