"""A site: where the machines of a lab are, and which cables carry its links. It changes names only.

It is the key `site` of an experiment, or a small file of its own that the command line names.
"""

from collections.abc import Mapping

from iolab.experiment.document import Items, Table, line_of
from iolab.experiment.machines import destination
from iolab.experiment.names import is_port, name_problem
from iolab.experiment.port_ref import PortRef
from iolab.experiment.problems import Problems, compact, did_you_mean, listed
from iolab.frozen import frozen
from iolab.units import UnitError

KEYS = ("hosts", "on", "cables")
END_ALLOWED = "HOST.INTERFACE, the host one of `hosts`"


@frozen
class Site:
    """Hosts, what runs on them, and the cables between them."""

    hosts: Mapping[str, str | None]
    """Name to where it is reached by ssh (None: this computer). A machine of the lab that has the name is this host."""
    on: Mapping[str, str]
    """Machine of the lab to the host that it runs on."""
    cables: Mapping[str, tuple[str, ...]]
    """Link of the lab to the cable that carries it between hosts, as host.interface of each end."""
    source: str
    """The file's name, for messages."""
    lines: Mapping[tuple[str, str], int]
    """Key and name to the line in that file."""

    def line(self, key: str, name: str) -> int:
        """Return the line of an entry."""
        return self.lines.get((key, name), 0)

    def host_of_end(self, end: str) -> str:
        """Return the host of a cable's end."""
        return PortRef(end).machine


def read_site(table: object, line: int, problems: Problems, within: str = "site") -> Site | None:
    """Return a site; None and problems noted where it is none. Whether it fits a lab is checked elsewhere."""
    before = len(problems)
    doing = f"reading {within}"
    if not isinstance(table, Table):
        problems.add(line, doing, table, f"a mapping with the keys {listed(KEYS)}")
        return None
    for key in table:
        if key not in KEYS:
            near = did_you_mean(key, KEYS)
            problems.add(table.lines[key], doing, f"the key '{key}'", f"the keys {listed(KEYS)}", near)
    parts = {key: _mapping(table, key, within, problems) for key in KEYS}
    hosts = {name: _place(parts["hosts"], name, within, problems) for name in parts["hosts"]}
    if not hosts and len(problems) == before:
        problems.add(table.line or line, doing, "no hosts", "hosts: {NAME: user@name, ...}")
    on = {name: _host(parts["on"], name, hosts, within, problems) for name in parts["on"]}
    cables = {name: _ends(parts["cables"], name, hosts, within, problems) for name in parts["cables"]}
    _check_ends(cables, parts["cables"], within, problems)
    if len(problems) > before:
        return None
    lines = {(key, name): parts[key].lines[name] for key in KEYS for name in parts[key]}
    return Site(hosts, on, cables, problems.source, lines)


def written_site(site: Site) -> str:
    """Return a site as the key `site` of an experiment, to stand at the end of its text."""
    hosts = {name: place or "none" for name, place in site.hosts.items()}
    cables = {name: list(ends) for name, ends in site.cables.items()}
    parts: dict[str, Mapping[str, object]] = {"hosts": hosts, "on": dict(site.on), "cables": cables}
    lines = [f"  {key}: {_quoted(part)}" for key, part in parts.items() if part]
    return "\n".join([f"# Where it was run: {site.source}", "site:", *lines]) + "\n"


def _quoted(part: Mapping[str, object]) -> str:
    """Return a mapping in YAML's flow style, on one line; where a host is reached is quoted."""
    items = (
        f"{name}: {compact(value, 10_000) if isinstance(value, list) else _text(str(value))}"
        for name, value in part.items()
    )
    return "{" + ", ".join(items) + "}"


def _text(value: str) -> str:
    return value if value.replace("-", "").isalnum() and value.isascii() else f'"{value}"'


def _mapping(table: Table, key: str, within: str, problems: Problems) -> Table:
    value = table.get(key)
    if isinstance(value, Table):
        return value
    if value is not None:
        problems.add(line_of(table, key), f"reading {within}.{key}", value, "a mapping of names")
    return Table()


def _place(hosts: Table, name: str, within: str, problems: Problems) -> str | None:
    """Return where a host is reached."""
    doing, line, value = f"reading {within}.hosts.{name}", hosts.lines[name], hosts[name]
    if wrong := name_problem(name, short=True):
        problems.add(line, doing, name, wrong)
    if value is None or value == "none":
        return None
    try:
        return destination(value) if isinstance(value, str) else _no_place(value)
    except UnitError as error:
        problems.add(line, doing, value, f"{error.allowed}; none for this computer", error.advice)
        return None


def _no_place(value: object) -> str:
    raise UnitError(str(value), "user@name, an alias of your ssh configuration, or ssh://user@name:port")


def _host(on: Table, name: str, hosts: Mapping[str, object], within: str, problems: Problems) -> str:
    """Return the host that a machine runs on."""
    value = on[name]
    if value not in hosts:
        doing = f"reading {within}.on.{name}"
        problems.add(
            on.lines[name], doing, value, f"one of `hosts`: {listed(hosts)}", did_you_mean(value, hosts)
        )
    if name in hosts:
        seen = f"{name}, which is a host of this site itself"
        problems.add(on.lines[name], f"reading {within}.on", seen, "a machine that runs on a host")
    return str(value)


def _ends(
    cables: Table, name: str, hosts: Mapping[str, object], within: str, problems: Problems
) -> tuple[str, ...]:
    """Return the ends of a cable."""
    doing, value = f"reading {within}.cables.{name}", cables[name]
    line = cables.lines[name]
    if not isinstance(value, Items) or len(value) < 2:
        problems.add(line, doing, value, f"a list of two or more: {END_ALLOWED}")
        return ()
    for end in value:
        ref = PortRef(end if isinstance(end, str) else "")
        if ref.machine not in hosts or not is_port(ref.port):
            near = did_you_mean(ref.machine, hosts) if ref.port else ""
            problems.add(line, doing, end, END_ALLOWED, near)
    return tuple(map(str, value))


def _check_ends(cables: Mapping[str, tuple[str, ...]], table: Table, within: str, problems: Problems) -> None:
    """Note an interface that two cables end at, and a cable with two ends at one host."""
    taken: dict[str, str] = {}
    for name, ends in cables.items():
        doing = f"reading {within}.cables.{name}"
        names = [PortRef(end).machine for end in ends]
        if len(set(names)) < len(names):
            problems.add(table.lines[name], doing, list(ends), "ends at different hosts")
        for end in ends:
            if taken.setdefault(end, name) != name:
                problems.add(
                    table.lines[name], doing, end, f"an interface of its own: {taken[end]} ends there"
                )
