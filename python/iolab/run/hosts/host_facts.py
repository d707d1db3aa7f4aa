"""The facts of a host: read by its agent, with its stored calibration; whether it has the programs of an experiment."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, replace
from hashlib import blake2b
from ipaddress import IPv4Network
from pathlib import Path
from shlex import join, quote

from pydantic import BaseModel

from iolab.agent.client import Agent
from iolab.agent.decoding import understood
from iolab.agent.messages import Json
from iolab.agent.transport import find_agent
from iolab.errors import AgentError, InputError, StoreError, UnsupportedError
from iolab.experiment import resolver_of
from iolab.experiment.experiment import Experiment, Section
from iolab.experiment.factors.product import Completion, sample
from iolab.experiment.model.machines import Host, Netns, Vm
from iolab.experiment.model.measures import Measure
from iolab.files import cache_folder, write_whole
from iolab.lab.guests.start import PROGRAM as TESTPMD
from iolab.lab.hosts.facts import CONGESTION_LOADED, ONLINE_CPUS, Facts, decode_facts
from iolab.lab.kernels import HERE
from iolab.lab.requirements.need import DOM0, NEWER_QEMU, QEMU_ISCSI, SWITCH
from iolab.lab.services import programs_of
from iolab.locale import Phrase, Text
from iolab.registry.images import FEATURE_MODULES
from iolab.registry.registry import measure_kinds, programs
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import carriers_there

SCHEMA = 1
FACTS_SCHEMA = 1
"""Version of facts.json."""
TOOLS = ("ip", "tc", "wg", "ethtool", "sysctl", "taskset", "ps", "qemu-system-x86_64", "xl",
         "qemu-storage-daemon", "tgtd", "qemu-nbd", "nbd-client", "iscsiadm", "mkfs.ext4", "mkfs.xfs",
         "mkfs.btrfs", "perf")  # fmt: skip
"""Programs that build labs; beside them those that measure."""
SETTINGS = (
    "/proc/sys/net/ipv4/tcp_congestion_control",
    CONGESTION_LOADED,
    "/proc/sys/net/ipv4/tcp_rmem",
    "/proc/sys/net/ipv4/tcp_wmem",
    "/proc/sys/net/core/rmem_max",
    "/proc/sys/net/core/wmem_max",
    "/proc/sys/net/core/default_qdisc",
    "/proc/sys/net/core/netdev_max_backlog",
    "/proc/sys/net/core/netdev_budget",
    "/proc/sys/kernel/sched_autogroup_enabled",
    ONLINE_CPUS,
)
"""Kernel settings that change what streams can do, and what can be pinned."""
SEEN_BY = {
    "device:vhost-net": ("test", "-c", "/dev/vhost-net"),
    "link:tun": ("test", "-w", "/dev/net/tun"),
    SWITCH: ("sh", "-c", f"command -v {TESTPMD}"),
    QEMU_ISCSI: (
        "sh",
        "-c",
        "ls /usr/lib*/qemu/block-iscsi.so /usr/lib/*/qemu/block-iscsi.so 2>/dev/null | grep -q .",
    ),
    DOM0: ("grep", "-qs", "control_d", "/proc/xen/capabilities"),
}
"""Feature to the command that succeeds on a host that has it."""
LOOK = 'for name; do command -v -- "$name" >/dev/null && printf "%s\\n" "$name"; done; true'
"""Prints those of its arguments that are programs."""
FACTS_DEADLINE_S = 120.0
"""An emulated guest takes seconds to try what its kernel can make, one below an emulated computer a minute, and so
does an emulated Dom0 on a busy computer."""
DECISIVE = ("hostname", "kernel", "architecture", "cpu_model", "cpus", "clocksource")
"""Facts that must be equal for trials to belong to one run; so must settings, the programs that measure, and whether it
is rootless."""
PROCESSORS = ("governors", "turbo", "smt")
"""Of how the processors run, what must be equal too, where the stored facts tell of it."""
CARDS = ("firmware", "driver_version", "coalescing", "pause", "manager")
"""Of cards, what is worth a word when it has changed."""
MOST_CELLS = 1000
"""Of one measure, that are looked at."""
KEYS = frozenset({"kind", "run", "servers", "services"})
"""Of a measure or a machine, that decide which programs it names."""


def machine_facts(agent: Agent, known: Mapping[str, Json] | None = None) -> dict[str, Json]:
    """Return what a machine with a kernel of its own is, for the run's folder; features and programs that are
    `known` are not asked for again. Raises AgentError."""
    asked = _asked() if known is None else {**_asked(), "programs": [], "features": False}
    raw = agent.call("facts.read", asked, FACTS_DEADLINE_S) | (known or {})
    return {"schema": FACTS_SCHEMA, **raw, "hello": json.loads(json.dumps(asdict(agent.hello)))}


def _asked() -> dict[str, Json]:
    """Return what an agent is asked for."""
    return {"programs": asked_programs(), "settings": list(SETTINGS)}


def asked_programs() -> list[str]:
    """Return the programs whose versions are facts."""
    return list(dict.fromkeys((*programs(), *TOOLS)))


def image_facts() -> list[dict[str, Json]]:
    """Return the guest images that are built with this agent, as `Facts.images` has them."""
    from iolab.image.build import (  # only where there may be guests: what builds images is large
        built_names,
        find,
    )

    found: list[dict[str, Json]] = []
    for name in built_names():
        image = find(name, find_agent())
        if image is not None:
            offered = {name: name in image.manifest.features for name in FEATURE_MODULES}
            names = [package.partition("=")[0] for package in image.packages]
            about = {"flavour": name, "digest": image.manifest.digest, "features": offered}
            found.append({**about, "packages": names})
    return found


def carrier_features(agent: Agent) -> dict[str, bool]:
    """Return what an agent's host has of what carries or starts guests."""
    looks = (f"{join(argv)} >/dev/null && echo {quote(name)}" for name, argv in SEEN_BY.items())
    there = agent.run(("sh", "-c", "\n".join([*looks, "true"]))).stdout.splitlines()
    return {name: name in there for name in SEEN_BY}


def newer_qemu() -> str | None:
    """Return the version of the QEMU that has the newer cards; None: this computer has none."""
    from iolab.image.emulator import NEWER, find_qemu

    try:
        return ".".join(map(str, find_qemu(NEWER).version))
    except UnsupportedError:
        return None


def planning_facts(agent: Agent, *, guests: bool) -> Facts:
    """Return what planning needs to know of this host, in a third of the time of `read_facts`.

    No program is asked for its version, and without `guests` nothing is looked for that starts them.
    """
    raw = agent.call("facts.read", {**_asked(), "programs": []}, FACTS_DEADLINE_S)
    return _completed(agent, {**raw, "programs": present(agent, asked_programs())}, guests=guests)[0]


def present(agent: Agent, names: Collection[str]) -> dict[str, str | None]:
    """Return each program with itself, or None where it is not there."""
    there = set(agent.run(("sh", "-c", LOOK, "sh", *names)).stdout.split("\n"))
    return {name: name if name in there else None for name in names}


def read_facts(agent: Agent) -> tuple[Facts, dict[str, Json]]:
    """Return this host's facts, decoded and as stored in facts.json."""
    return _completed(agent, agent.call("facts.read", _asked(), FACTS_DEADLINE_S), guests=True)


def _completed(agent: Agent, raw: dict[str, Json], *, guests: bool) -> tuple[Facts, dict[str, Json]]:
    """Add what is known of a host beside its agent's answer."""
    hello = json.loads(json.dumps(asdict(agent.hello)))
    raw = {**raw, "control_interfaces": carriers_there(agent), "networks": networks_there(agent)}
    raw = {
        **raw,
        "images": image_facts() if guests else [],
        "features": raw["features"] | carrier_features(agent),
    }
    raw["programs"] = raw["programs"] | {NEWER_QEMU: newer_qemu() if guests else None}
    calibration = stored_calibration(raw)
    known = {} if calibration is None else {"calibration": calibration}
    return decode_facts(hello, raw), {"schema": FACTS_SCHEMA, **raw, "hello": hello, **known}


def facts_of(stored: Mapping[str, Json]) -> Facts | None:
    """Return stored facts decoded; None: they are of another version."""
    hello = stored.get("hello")
    own = {name: value for name, value in stored.items() if name != "hosts"}
    try:
        return decode_facts(hello if isinstance(hello, dict) else {}, own)
    except AgentError:
        return None


def changed_facts(stored: Mapping[str, object], now: Mapping[str, object]) -> list[Text]:
    """Return what makes this host another one than the stored facts tell of.

    What an older version did not ask for is not among the stored facts, and so says nothing.
    """
    then, today = _decisive(stored), _decisive(now)
    return [
        Phrase("run.then-and-now", name=name, then=str(then[name]), today=str(today[name]))
        for name in then
        if then[name] != today.get(name)
    ]


def changed_readiness(stored: Mapping[str, object], now: Mapping[str, object]) -> list[Text]:
    """Return what of daemons and cards is not as the stored facts tell: trials stay comparable, but may differ."""
    then, today = _readiness(stored), _readiness(now)
    return [
        Phrase("run.then-and-now", name=name, then=str(then[name]), today=str(today[name]))
        for name in then
        if name in today and then[name] != today[name]
    ]


def _readiness(facts: Mapping[str, object]) -> dict[str, object]:
    found: dict[str, object] = {"daemons": facts["daemons"]} if "daemons" in facts else {}
    interfaces = facts.get("interfaces")
    for card in interfaces if isinstance(interfaces, list) else ():
        found |= {f"{name} of {card['name']}": card[name] for name in CARDS if name in card}
    hosts = facts.get("hosts")
    for host, told in hosts.items() if isinstance(hosts, dict) else ():
        found |= {f"{name} on {host}": value for name, value in _readiness(told).items()}
    return found


def _decisive(facts: Mapping[str, object]) -> dict[str, object]:
    found = {name: facts[name] for name in DECISIVE if name in facts}
    for group, names in (("settings", SETTINGS), ("hello", ("rootless",))):
        table = facts.get(group)
        found |= {name: table[name] for name in names if name in table} if isinstance(table, dict) else {}
    known = facts.get("programs")
    found |= {name: known[name] for name in programs() if name in known} if isinstance(known, dict) else {}
    processors = facts.get("processors")
    if isinstance(processors, dict):
        found |= {f"{name} of the processors": processors[name] for name in PROCESSORS if name in processors}
    hosts = facts.get("hosts")
    for host, told in hosts.items() if isinstance(hosts, dict) else ():
        found |= {f"{name} of {host}": value for name, value in _decisive(told).items()}
    return found


ADDRESSES, ROUTES = ("ip", "-j", "-4", "addr"), ("ip", "-j", "-4", "route")
EVERYTHING = ("default", "0.0.0.0/0")


def networks_there(agent: Agent) -> list[dict[str, Json]]:
    """Return the networks that an agent's computer uses, as `Facts.networks` has them."""
    if agent.hello.rootless:  # in its own namespaces it sees none, and can take none away
        return []
    shown = agent.run_all([(argv, None) for argv in (ADDRESSES, ROUTES)])
    with understood(agent.name, Phrase("agent.addresses-and-routes")):
        addresses, routes = (json.loads(one.stdout or "[]") if one.succeeded else [] for one in shown)
        found = dict.fromkeys((*_of_addresses(addresses), *_of_routes(routes)))
    return [{"network": network, "interface": interface} for network, interface in found]


def _of_addresses(addresses: Json) -> Iterator[tuple[str, str]]:
    for card in addresses:
        for one in card.get("addr_info", ()):
            yield str(IPv4Network(f"{one['local']}/{one['prefixlen']}", strict=False)), card["ifname"]


def _of_routes(routes: Json) -> Iterator[tuple[str, str]]:
    for one in routes:
        if one["dst"] not in EVERYTHING:
            yield str(IPv4Network(one["dst"], strict=False)), one.get("dev", "")


def stored_calibration(host: Mapping[str, Json]) -> dict[str, Json] | None:
    """Return what was measured on a host with its kernel, or None."""
    try:
        found = json.loads(place(identity(host)).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = isinstance(found, dict) and found.get("schema") == SCHEMA and found.get("host") == identity(host)
    return found if same else None


def store_calibration(found: Mapping[str, Json]) -> Path:
    """Keep a calibration for later runs; return where.

    Raises:
        StoreError: it cannot be written.
    """
    path = place(found["host"])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(found, indent=1))
    except OSError as error:
        raise StoreError(Phrase("run.calibration-not-stored", path=path, reason=error.strerror)) from error
    return path


def place(host: Mapping[str, Json]) -> Path:
    """Return where the calibration of a host lies (XDG base directories); its name is a digest of its identity."""
    digest = blake2b(json.dumps(host, sort_keys=True).encode(), digest_size=8).hexdigest()
    return cache_folder() / f"calibration-{digest}.json"


def identity(host: Mapping[str, Json]) -> dict[str, Json]:
    """Return what must be the same for a calibration to hold."""
    return {name: host.get(name) for name in ("hostname", "kernel", "architecture", "cpu_model", "cpus")}


def with_named_programs(facts: Facts, agents: Agents, experiment: Experiment) -> Facts:
    """Return the facts of all hosts with what each has of the programs that an experiment names.

    Raises:
        AgentError: an agent is gone.
    """
    if not (names := named_programs(experiment)):
        return facts
    hosts = {
        name: replace(own, programs={**own.programs, **present(agents.of(name), names)})
        for name, own in facts.hosts.items()
    }
    own = {**facts.programs, **present(agents.of(HERE), names)}
    images = tuple(replace(one, programs=_in_image(one.flavour, names)) for one in facts.images)
    return replace(facts, programs=own, hosts=hosts, images=images)


def _in_image(name: str, names: Collection[str]) -> dict[str, bool]:
    """Return each program with whether a guest image has it; nothing where that cannot be seen."""
    from iolab.image.build import find  # only where an image is looked into: what builds images is large
    from iolab.image.layers import programs_in

    image = find(name, find_agent())
    there = None if image is None else programs_in(image)
    return {} if there is None else {each: each in there for each in names if "/" not in each}


def named_programs(experiment: Experiment) -> tuple[str, ...]:
    """Return the programs that the measures and machines of an experiment name, in any cell."""
    resolver, complete = resolver_of(experiment), Completion(experiment.factors)
    machines = [section for section in resolver.sections if section.group == "machines"]
    found: dict[str, None] = {}
    like: object = None
    for section in (*(Section("measure", measure) for measure in resolver.measures), *machines):
        if (content := resolver.content(section)) == like:
            continue
        like = content
        for cell in sample(experiment, resolver.factors_of(section, KEYS), MOST_CELLS):
            try:
                model = resolver.model(section, complete(cell))
            except InputError:
                continue  # planning says what is wrong
            found |= dict.fromkeys(_named(model))
    return tuple(found)


def _named(model: BaseModel | None) -> Iterator[str]:
    """Yield the programs that a measure or a machine names."""
    if isinstance(model, Host | Netns | Vm):
        yield from programs_of(model)
    elif isinstance(model, Measure):
        yield from (program for _, program in measure_kinds()[model.kind].named_programs(model))
