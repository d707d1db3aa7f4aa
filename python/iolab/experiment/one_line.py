"""Create experiments without a file: from a line of the command line, and the first experiment of `iolab new`."""

import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

from iolab.errors import InputError, Problem
from iolab.experiment.model.links import Link
from iolab.experiment.reading.problems import is_port, name_problem
from iolab.frozen import frozen
from iolab.locale import Phrase, Text
from iolab.registry.registry import measure_kinds
from iolab.registry.rows import AnyMeasureKind, ShortForm

DEVICE = "dut"
"""Name of the machine between the two ends of a forwarding measure."""

PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.%+/-")
"""Characters of YAML scalars that need no quotes; colons are not among them."""

DOING = Phrase("check.reading-one-line-as-experiment")

Node = dict[str, Any]
"""A mapping of the experiment file: its values are YAML texts or further mappings."""


@frozen
class OneLine:
    """An experiment as typed on the command line."""

    word: str
    """Short form of a measure: tcp, ping, ..."""
    ends: tuple[str, str]
    """Namespace names, or user@host:interface."""
    program: str = ""
    """Command line for `command`, in shell syntax."""
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Levels of each key; the first level is the baseline."""
    blocks: int = 5
    """Number of blocks: how often each combination is measured."""

    @property
    def words(self) -> list[str]:
        """The arguments to type after `iolab quick`."""
        options = [word for key, levels in self.levels.items() for word in (f"--{key}", ",".join(levels))]
        return [self.word, *self.ends, *filter(None, [self.program]), *options, "--blocks", str(self.blocks)]


def short_forms() -> dict[str, tuple[AnyMeasureKind, ShortForm]]:
    """Return the short forms of measures, with their kinds."""
    return {
        word: (kind, form) for kind in measure_kinds().values() for word, form in kind.short_forms.items()
    }


def experiment_of(line: OneLine) -> str:
    """Return the text of the experiment file that a command line stands for.

    A key belongs to the measure if the measure has such a key, otherwise to the link: `mtu`, `wire.delay`.

    Raises:
        InputError: neither the measure nor the link has the key, the ends cannot be linked, or the program is missing.
    """
    machines, links = _between(line)
    kind, form = short_forms()[line.word]
    measure: Node = {"kind": kind.name, **_aim(line), **form.keys}
    own = [field.alias or name for name, field in kind.model.model_fields.items()]
    tree: Node = {"machines": machines, "links": links}
    factors = {}
    for key, levels in line.levels.items():
        path = _path(line, key, own)
        root = measure if path[0] == line.word else tree
        _put(root, path[1:] if root is measure else path, _scalar(levels[0]))
        if len(levels) > 1:
            factors[".".join(path)] = levels
    for link in links.values():
        if isinstance(shape := link.get("shape"), dict):
            shape.setdefault("at", _ports(line)[0])
    return _text(line, tree, measure, factors)


def _between(line: OneLine) -> tuple[Node, Node]:
    """Return machines and links: two namespaces and a link, with a device between them for forwarding measures."""
    there = ["@" in end for end in line.ends]
    if any(there):
        return _cable(line, all(there))
    first, second = line.ends
    for end in line.ends:
        if allowed := name_problem(end, short=False):
            raise _wrong("ends", end, Phrase("check.allowed-or-user-host-interface", allowed=allowed))
    if first == second:
        raise _wrong("ends", Phrase("check.twice", name=first), Phrase("check.two-names"))
    machines: Node = {end: {"kind": "netns"} for end in line.ends}
    if not short_forms()[line.word][1].device:
        return machines, {"lan": {"ends": f"[{first}.eth0, {second}.eth0]"}}
    machines[DEVICE] = {"kind": "netns", "forward": "bridge"}
    west, east = f"[{first}.eth0, {DEVICE}.eth0]", f"[{DEVICE}.eth1, {second}.eth0]"
    return machines, {"west": {"ends": west}, "east": {"ends": east}}


def _cable(line: OneLine, both: bool) -> tuple[Node, Node]:
    """Return two hosts and the cable between them."""
    ends = Phrase("errors.listed-with-and", items=line.ends)
    if not both:
        raise _wrong("ends", ends, Phrase("check.two-names-or-interfaces"))
    if short_forms()[line.word][1].device:
        advice = Phrase("check.write-a-file-for-hosts")
        raise _wrong("ends", ends, Phrase("check.two-ends-for-word", word=line.word), advice)
    machines: Node = {}
    for name, end in zip(("one", "other"), line.ends, strict=True):
        address, _, interface = end.rpartition(":")
        if not address or not is_port(interface):
            raise _wrong("ends", end, Phrase("check.interface-of-a-host"))
        machines[name] = {"kind": "host", "ssh": _scalar(address)}
    return machines, {"lan": {"cable": "true", "ends": f"[{', '.join(_ports(line))}]"}}


def _ports(line: OneLine) -> list[str]:
    """Return the ports at both ends."""
    if "@" in line.ends[0]:
        interfaces = [end.rpartition(":")[2] for end in line.ends]
        return [f"{name}.{port}" for name, port in zip(("one", "other"), interfaces, strict=True)]
    return [f"{end}.eth0" for end in line.ends]


def _aim(line: OneLine) -> Node:
    """Return the measure's keys for its two ends."""
    ports = _ports(line)
    first, second = (port.split(".")[0] for port in ports)
    form = short_forms()[line.word][1]
    if form.program:
        if not line.program:
            raise _wrong("program", "none", Phrase("check.quoted-program-after-ends", second=second))
        words = ", ".join(json.dumps(word, ensure_ascii=False) for word in _words(line.program))
        return {"on": first, "run": f"[{words}]"}
    if line.program:
        raise _wrong("program", line.program, Phrase("check.measure-has-own-program"))
    return dict(zip(("from", "to"), ports if form.device else (first, second), strict=True))


def _words(program: str) -> list[str]:
    try:
        return shlex.split(program)
    except ValueError as error:
        raise _wrong("program", program, Phrase("check.words-of-a-shell"), str(error)) from None


def _path(line: OneLine, key: str, own: Collection[str]) -> list[str]:
    """Return the place of a key in the file: in the measure, the link or the device."""
    head, device = key.split(".", maxsplit=1)[0], short_forms()[line.word][1].device
    if head in own and head not in ("kind", "from", "to"):
        return [line.word, *key.split(".")]
    if device:
        if head in ("forward", "device"):
            return ["machines", DEVICE, *key.split(".")]
    elif head in Link.model_fields and head not in ("ends", "cable"):
        return ["links", "lan", *key.split(".")]
    known = sorted(set(own) - {"kind", "from", "to"})
    others = ["forward"] if device else sorted(set(Link.model_fields) - {"ends", "cable"})
    raise _wrong(
        f"--{key}",
        key,
        Phrase("check.settings-of-measure-and-lab", known=known, others=others),
    )


def _put(node: Node, path: Sequence[str], value: str) -> None:
    """Set a value at a path, and create missing mappings."""
    *way, last = path
    for name in way:
        inner = node.setdefault(name, {})
        if not isinstance(inner, dict):
            raise _wrong(
                f"--{'.'.join(path)}",
                Phrase("check.name-with-value", name=name),
                Phrase("check.key-or-keys-below", name=name),
            )
        node = inner
    node[last] = value


def _scalar(text: str) -> str:
    """Return a value as YAML text: numbers, times and words unchanged, all other values in quotes."""
    plain = text and set(text) <= PLAIN and text[0] not in "-%."
    return text if plain else json.dumps(text, ensure_ascii=False)


def _text(line: OneLine, tree: Node, measure: Node, factors: Mapping[str, Sequence[str]]) -> str:
    typed = shlex.join(["iolab", "quick", *line.words]).replace("\n", " ")
    parts = [f"# {typed}", f"title: {_title(line, tree)}", "", "lab:"]
    for section, entries in tree.items():
        parts += [f"  {section}:", *(f"    {name}: {_flow(value)}" for name, value in entries.items())]
    parts += ["", "measure:", f"  {line.word}: {_flow(measure)}", ""]
    if factors:
        parts.append("factors:")
        parts += [f"  {path}: [{', '.join(map(_scalar, levels))}]" for path, levels in factors.items()]
        base = ", ".join(f"{path}: {_scalar(levels[0])}" for path, levels in factors.items())
        parts += ["", f"baseline: {{{base}}}"]
    return "\n".join([*parts, f"blocks: {line.blocks}", ""])


def _title(line: OneLine, tree: Node) -> str:
    first, second = (name for name in tree["machines"] if name != DEVICE)
    return str(Phrase("check.title-of-one-line-experiment", measure=line.word, source=first, target=second))


def _flow(node: Node | str) -> str:
    if isinstance(node, str):
        return node
    return f"{{{', '.join(f'{key}: {_flow(value)}' for key, value in node.items())}}}"


def _wrong(where: str, seen: Text, allowed: Text, advice: Text = "") -> InputError:
    return InputError([Problem(where, DOING, seen, allowed, advice)])


def starter(name: str) -> Phrase:
    """Return the text of a first experiment with this name; it passes all checks."""
    title = "".join(letter for letter in name if letter.isalnum() or letter in " -_.").strip(" -.")[:100]
    if not title or not title[0].isalpha():
        title = str(Phrase("new.title", name=title)).strip()
    return Phrase("new.experiment", title=title)
