"""Rename old keys of an experiment file before any other module reads them."""

from collections.abc import Iterator, Mapping, Sequence

from iolab.aliases import ANY, Alias, Sort, aliases, give_notice
from iolab.experiment.reading.document import Items, Table, line_of
from iolab.experiment.reading.problems import Problems
from iolab.locale import Phrase, Text

LAB, MEASURE, FACTORS = "lab", "measure", "factors"
"""Top-level keys below which keys are renamed."""

GROUPS = ("machines", "links", "volumes")


def rename_keys(document: Table, problems: Problems, *, stored: bool) -> None:
    """Rename the keys of a document to their current names.

    Old keys of a `stored` document are renamed without a notice, in every later version.
    """
    if next(aliases(Sort.YAML_KEY), None) is None:
        return
    renaming = _Renaming(document, problems, stored=stored)
    for key in (LAB, MEASURE):
        renaming.below(document.get(key), (key,))
    renaming.factors(document.get(FACTORS))


def with_new_words(path: str) -> Iterator[str]:
    """Yield the possible current spellings of a factor path: tcp.OLD becomes tcp.NEW. The factor keeps its name."""
    words = path.split(".")
    place = (LAB, *words) if words[0] in GROUPS else (MEASURE, *words)
    for row in aliases(Sort.YAML_KEY):
        pattern = (*row.within.split("."), row.old)
        if len(place) >= len(pattern) and _fits(place[: len(pattern)], pattern):
            at = len(pattern) - 2  # index in the path, which lacks the first word of the place
            yield ".".join((*words[:at], row.new, *words[at + 1 :]))


class _Renaming:
    """The renaming of keys in one document."""

    def __init__(self, document: Table, problems: Problems, *, stored: bool) -> None:
        self._document = document
        self._problems = problems
        self._stored = stored

    def below(self, node: object, place: tuple[str, ...]) -> None:
        """Rename the keys of all mappings at a place and below it."""
        if isinstance(node, Items):
            for item in node:
                self.below(item, place)
        if not isinstance(node, Table):
            return
        for row in aliases(Sort.YAML_KEY):
            fits = _fits(place, row.within.split(".")) and row.kind in ("", node.get("kind"))
            if fits and row.old in node:
                self._rename(node, row)
        for key, value in node.items():
            self.below(value, (*place, key))

    def factors(self, node: object) -> None:
        """Rename the keys in the values of levels, according to the place that the factor's path names."""
        if not isinstance(node, Table):
            return
        for key, value in node.items():
            words = key.split(".")
            place = (LAB, *words) if words[0] in GROUPS else (MEASURE, *words)
            self._path(place, line_of(node, key))
            for level in _levels(value):
                self.below(level, place)
                self.below(level.get("value") if isinstance(level, Table) else None, place)
                self.factors(level)

    def _path(self, place: tuple[str, ...], line: int) -> None:
        """Report that a path uses an old name; if the name is no longer accepted, report a problem."""
        for row in aliases(Sort.YAML_KEY):
            pattern = (*row.within.split("."), row.old)
            kinds = ("", self._kind_at(place))
            fits = _fits(place[: len(pattern)], pattern) and (row.kind in kinds or ANY in kinds)
            if self._stored or not fits:
                continue
            if row.accepted:
                give_notice(row, f"{self._problems.source}:{line}")
            else:
                self._refuse(row, line)

    def _kind_at(self, place: tuple[str, ...]) -> object:
        """Return the kind of the machine or measure that contains a place; ANY if the place matches several machines or
        measures."""
        node: object = self._document
        for word in place[: 2 if place[0] == MEASURE else 3]:
            if word == ANY:
                return ANY
            node = node.get(word) if isinstance(node, Table) else None
        return node.get("kind") if isinstance(node, Table) else None

    def _refuse(self, row: Alias, line: int) -> None:
        advice = Phrase("check.was-renamed-in-iolab", since=row.since)
        self._problems.add(
            line,
            Phrase("check.reading-a-key"),
            Phrase("check.the-key", key=row.old),
            Phrase("check.the-key", key=row.new),
            advice,
        )

    def _rename(self, node: Table, row: Alias) -> None:
        line = line_of(node, row.old)
        if row.new in node:
            allowed = Phrase("check.key-alone", key=row.new)
            self._problems.add(
                line,
                Phrase("check.reading-a-key"),
                Phrase("check.both-keys", old=row.old, new=row.new),
                allowed,
            )
            return
        if not (self._stored or row.accepted):
            self._refuse(row, line)
            return
        if not self._stored:
            give_notice(row, f"{self._problems.source}:{line}")
        content = dict(node)
        node.clear()
        node.update({row.new if key == row.old else key: value for key, value in content.items()})
        node.lines[row.new] = line
        if row.old in node.texts:
            node.texts[row.new] = node.texts[row.old]


def _levels(value: object) -> Sequence[object]:
    """Return the values of levels: the items of a list, or the values of a mapping from labels."""
    if isinstance(value, Items):
        return list(value)
    return list(value.values()) if isinstance(value, Mapping) else []


def _fits(place: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a place matches a pattern; a `*` in the path matches any name, too."""
    return len(place) == len(pattern) and all(
        want in (ANY, word) or word == ANY for word, want in zip(place, pattern, strict=True)
    )


_TOP = {
    "repeat": "blocks",
    "repeats": "blocks",
    "repetitions": "blocks",
    "iterations": "blocks",
    "runs": "blocks",
    "name": "title",
    "description": "title",
    "tests": "measure",
    "parameters": "factors",
    "variables": "factors",
    "exclude": "except",
}

_INSTEAD: Mapping[str, Mapping[str, Text]] = {
    "top": {word: Phrase("check.write-for-it", word=right) for word, right in _TOP.items()},
    "links": {
        **{word: Phrase("check.write-wire", key=word) for word in ("delay", "loss", "corrupt", "duplicate")},
        "rate": Phrase("check.write-shape"),
        "bandwidth": Phrase("check.write-shape"),
    },
    "volumes": {
        "path": Phrase("check.write-folder"),
        "disk": Phrase("check.write-device"),
        **dict.fromkeys(("portal", "iqn", "lun", "nqn"), Phrase("check.write-target")),
    },
    "machines.disks": {
        word: Phrase("check.write-volume", key=key)
        for word, key in (("device", "device"), ("folder", "folder"), ("path", "folder"))
    },
    "machines.kind": {
        **dict.fromkeys(("docker", "container", "namespace", "lxc"), Phrase("check.write-netns")),
        **dict.fromkeys(("qemu", "kvm", "guest"), Phrase("check.write-vm")),
        **dict.fromkeys(("ssh", "server", "machine"), Phrase("check.write-host")),
    },
    "measure.kind": dict.fromkeys(("iperf", "iperf3", "netperf", "tcp", "udp"), Phrase("check.write-stream"))
    | {"fio": Phrase("check.write-disk")},
}


def instead(place: str, word: object) -> Text:
    """Return the advice for a word of a different tool at a place in the document, or an empty text."""
    return _INSTEAD.get(place, {}).get(str(word), "")
