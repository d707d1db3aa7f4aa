"""Convert host lists (the aliases of an ssh configuration, an Ansible inventory) to machines of an experiment.

Only names, users and ports are read; ssh itself finds keys and other settings. This module opens no file.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from iolab.errors import InputError, Problem
from iolab.experiment.model.machines import DESTINATION
from iolab.experiment.reading.problems import name_problem
from iolab.frozen import frozen
from iolab.locale import Phrase

Include = Callable[[str], Iterable[str]]
"""Function that returns the texts of the files that match the pattern of an Include line."""

VARIABLES = ("host", "user", "port", "connection")

DEEPEST_INCLUDE = 16

MOST_HOSTS = 10_000


@frozen
class ListedHost:
    """A host in an ssh configuration or an inventory."""

    name: str
    """The host name as listed."""
    ssh: str | None
    """The value for the key `ssh`; None: the local host."""


def read_ssh_config(text: str, include: Include, depth: int = 0) -> list[ListedHost]:
    """Return the aliases in an ssh configuration: names without wildcards that have a HostName.

    If a host has several names, the first is used: a lab contains a host once. ssh itself finds user, port and key.
    """
    found: dict[str, ListedHost] = {}
    aliases: list[str] = []
    for line in text.splitlines():
        keyword, values = _directive(line)
        if keyword == "host":
            aliases = [name for name in values if not re.search(r"[*?!]", name)][:1]
        elif keyword == "match":
            aliases = []
        elif keyword == "hostname":
            found |= {name: ListedHost(name, name) for name in aliases if name not in found}
        elif keyword == "include" and depth < DEEPEST_INCLUDE:
            for pattern in values:
                for more in include(pattern):
                    found |= {host.name: host for host in read_ssh_config(more, include, depth + 1)}
    return list(found.values())


def read_inventory(text: str, where: str) -> list[ListedHost]:
    """Return the hosts of an Ansible inventory, in INI or YAML form, in listed order.

    Raises:
        InputError: the text is neither an INI nor a YAML inventory.
    """
    groups = _read_yaml(text, where) if _is_yaml(text) else _read_ini(text, where)
    return [_listed(name, variables) for name, variables in groups.hosts().items()]


def machines_block(hosts: Iterable[ListedHost]) -> str:
    """Return the hosts as the `lab:` block of an experiment, with a comment that lists what the user must add."""
    lines = ["lab:", "  machines:"]
    used: set[str] = set()
    names: list[str] = []
    for host in hosts:
        if host.ssh is not None and not DESTINATION.fullmatch(host.ssh):
            lines.append(_left_out(host, "    "))
            continue
        name = _machine_name(host.name, used)
        used.add(name)
        names.append(name)
        lines.append(f"    {name}: {{kind: host{'' if host.ssh is None else f', ssh: {_quoted(host.ssh)}'}}}")
    ends = ", ".join(f"{name}.eth1" for name in (*names, "OTHER", "OTHER")[:2])
    lines.append(str(Phrase("check.delete-other-machines")))
    lines.append(f"  # links: {{lan: {{ends: [{ends}], cable: true}}}}")
    return "\n".join(lines) + "\n"


def site_block(hosts: Iterable[ListedHost]) -> str:
    """Return the hosts as the beginning of a site file, with comments that list what the user must add."""
    used: set[str] = set()
    lines = [str(Phrase("check.hosts-of-site"))]
    for host in hosts:
        if host.ssh is not None and not DESTINATION.fullmatch(host.ssh):
            lines.append(_left_out(host, "  "))
            continue
        name = _machine_name(host.name, used)
        used.add(name)
        lines.append(f"  {name}: {'none' if host.ssh is None else _quoted(host.ssh)}")
    lines += [str(Phrase("check.on-of-site")), str(Phrase("check.cables-of-site"))]
    return "\n".join(lines) + "\n"


def _left_out(host: ListedHost, indent: str) -> str:
    return indent + str(Phrase("check.host-left-out", host=host.name, ssh=repr(host.ssh)))


class _Groups:
    """Hosts, their groups, and the variables of both."""

    def __init__(self) -> None:
        self.own: dict[str, dict[str, str]] = {}
        self.members: dict[str, list[str]] = {"all": []}
        self.children: dict[str, list[str]] = {}
        self.variables: dict[str, dict[str, str]] = {}

    def add(self, host: str, group: str, variables: Mapping[str, str]) -> None:
        """Add a host to a group."""
        self.own.setdefault(host, {}).update(variables)
        self.members.setdefault(group, []).append(host)

    def hosts(self) -> dict[str, dict[str, str]]:
        """Return each host with its variables.

        The variables of a host override those of its groups, which override those of parent groups.
        """
        return {host: self._inherited(host) | own for host, own in self.own.items()}

    def _inherited(self, host: str) -> dict[str, str]:
        level = [group for group, members in self.members.items() if host in members]
        found: dict[str, str] = {}
        for _ in range(len(self.children) + 1):
            for group in level:
                found = self.variables.get(group, {}) | found
            level = [parent for parent, children in self.children.items() if set(children) & set(level)]
        return self.variables.get("all", {}) | found


def _listed(name: str, variables: Mapping[str, str]) -> ListedHost:
    told = {
        short: variables.get(f"ansible_{short}", variables.get(f"ansible_ssh_{short}", ""))
        for short in VARIABLES
    }
    if told["connection"] == "local":
        return ListedHost(name, None)
    place = told["host"] or name
    if told["user"]:
        place = f"{told['user']}@{place}"
    return ListedHost(name, f"ssh://{place}:{told['port']}" if told["port"] not in ("", "22") else place)


def _directive(line: str) -> tuple[str, list[str]]:
    """Return the keyword, in lower case, and the values of an ssh configuration line."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return "", []
    if not words:
        return "", []
    first, _, rest = words[0].partition("=")
    values = [*([rest] if rest else []), *words[1:]]
    if values and values[0] == "=":
        del values[0]
    return first.lower(), values


def _is_yaml(text: str) -> bool:
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    first = next(lines, "")
    return first.startswith("---") or re.match(r"[\w\"'.-]+:\s*($|#|\{)", first) is not None


def _read_ini(text: str, where: str) -> _Groups:
    groups = _Groups()
    section, kind = "ungrouped", ""
    for number, line in enumerate(text.splitlines(), 1):
        body = line.strip()
        if not body or body[0] in "#;":
            continue
        if heading := re.fullmatch(r"\[([^\]:]+)(?::(\w+))?\]\s*([#;].*)?", body):
            section, kind = heading[1], heading[2] or ""
            continue
        try:
            words = shlex.split(body, comments=True)
        except ValueError as error:
            allowed = Phrase("check.lines-of-an-ini-inventory")
            raise InputError(
                [Problem(f"{where}:{number}", Phrase("check.reading-inventory"), body, allowed)]
            ) from error
        if kind == "vars":
            key, _, value = body.partition("=")
            groups.variables.setdefault(section, {})[key.strip()] = value.strip().strip("'\"")
        elif kind == "children":
            groups.children.setdefault(section, []).append(words[0])
        else:
            variables = dict(word.split("=", 1) for word in words[1:] if "=" in word)
            for host in islice(_expanded(words[0]), MOST_HOSTS):
                groups.add(host, section, variables)
    return groups


def _read_yaml(text: str, where: str) -> _Groups:
    allowed = Phrase("check.groups-of-a-yaml-inventory")
    try:
        document: Any = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        seen = str(getattr(error, "problem", "")) or Phrase("check.no-yaml")
        raise InputError([Problem(where, Phrase("check.reading-inventory"), seen, allowed)]) from error
    if not isinstance(document, dict):
        raise InputError(
            [Problem(where, Phrase("check.reading-inventory"), type(document).__name__, allowed)]
        )
    groups = _Groups()
    for name, body in document.items():
        _read_group(groups, str(name), body)
    return groups


def _read_group(groups: _Groups, name: str, body: object) -> None:
    """Read a group of a YAML inventory with its hosts and child groups."""
    parts = body if isinstance(body, dict) else {}
    groups.variables.setdefault(name, {}).update(_texts(parts.get("vars")))
    hosts = parts.get("hosts")
    for pattern, variables in hosts.items() if isinstance(hosts, dict) else ():
        for host in islice(_expanded(str(pattern)), MOST_HOSTS):
            groups.add(host, name, _texts(variables))
    children = parts.get("children")
    for child, inner in children.items() if isinstance(children, dict) else ():
        groups.children.setdefault(name, []).append(str(child))
        _read_group(groups, str(child), inner)


def _texts(variables: object) -> dict[str, str]:
    return {str(key): str(value) for key, value in variables.items()} if isinstance(variables, dict) else {}


def _expanded(pattern: str) -> Iterator[str]:
    """Yield the names in a range such as `web[01:12]` or `db[a:c]`; text in other brackets is unchanged."""
    found = re.search(r"\[(\w+):(\w+)(?::(\d+))?\]", pattern)
    if found is None:
        yield pattern
        return
    low, high, step = found[1], found[2], int(found[3] or 1) or 1
    if low.isdigit() and high.isdigit():
        width = len(low) if low[0] == "0" else 0
        values = (str(number).zfill(width) for number in range(int(low), int(high) + 1, step))
    else:
        values = (chr(letter) for letter in range(ord(low[0]), ord(high[0]) + 1, step))
    for value in values:
        yield from _expanded(pattern[: found.start()] + value + pattern[found.end() :])


def _machine_name(name: str, used: set[str]) -> str:
    """Return a valid and unique machine name: the first label of a domain name, shortened if necessary."""
    label = name if re.fullmatch(r"[\d.]+", name) else name.partition(".")[0]
    short = re.sub(r"[^A-Za-z0-9_-]", "-", label).lstrip("-_")[:15] or "host"
    short = short if not name_problem(short, short=True) else f"{short[:13]}-1"
    number, unique = 1, short
    while unique in used:
        number += 1
        unique = f"{short[: 14 - len(str(number))]}-{number}"
    return unique


def _quoted(text: str) -> str:
    """Return a text as a plain scalar of YAML's flow style, or in quotes."""
    return text if re.fullmatch(r"[A-Za-z0-9_][\w.@/-]*(:[\w@/.-]+)*", text) else f'"{text}"'
