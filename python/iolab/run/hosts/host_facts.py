"""The facts of a host: read by its agent, with its stored calibration and the programs in an experiment."""

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
         "qemu-storage-daemon", "tgtd", "qemu-nbd", "nbd-client", "iscsiadm", "iscsi-inq", "mkfs.ext4", "mkfs.xfs",
         "mkfs.btrfs", "perf")  # fmt: skip
"""Programs that build labs; the facts also list measurement programs."""
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
"""Kernel settings that affect streams and pinning."""
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
"""Command that tests for each feature; it succeeds only on a host that has the feature."""
LOOK = 'for name; do command -v -- "$name" >/dev/null && printf "%s\\n" "$name"; done; true'
"""Script that prints which of its arguments are names of installed programs."""
FACTS_DEADLINE_S = 120.0
"""Time limit for reading facts: testing the kernel's features takes seconds in an emulated guest, and a minute in a
nested one or in an emulated Dom0 on a busy host."""
DECISIVE = ("hostname", "kernel", "architecture", "cpu_model", "cpus", "clocksource")
"""Facts that must be equal for all trials of a run. Settings, measurement programs, and whether the agent is rootless
must be equal too."""
PROCESSORS = ("governors", "turbo", "smt")
"""Processor facts that must be equal too, if the stored facts include them."""
CARDS = ("firmware", "driver_version", "coalescing", "pause", "manager")
"""Facts of a NIC whose changes are reported."""
MOST_CELLS = 1000
"""Maximum number of cells per measure that are searched for programs."""
KEYS = frozenset({"kind", "run", "servers", "services"})
"""Keys of a measure or a machine that determine its programs."""


def machine_facts(agent: Agent, known: Mapping[str, Json] | None = None) -> dict[str, Json]:
    """Return the description of a machine with its own kernel, for the run folder.

    Features and programs in `known` are not read again. Raises AgentError.
    """
    asked = _asked() if known is None else {**_asked(), "programs": [], "features": False}
    raw = agent.call("facts.read", asked, FACTS_DEADLINE_S) | (known or {})
    return {"schema": FACTS_SCHEMA, **raw, "hello": json.loads(json.dumps(asdict(agent.hello)))}


def _asked() -> dict[str, Json]:
    """Return the parameters of the request for facts to the agent."""
    return {"programs": asked_programs(), "settings": list(SETTINGS)}


def asked_programs() -> list[str]:
    """Return the programs whose versions are stored as facts."""
    return list(dict.fromkeys((*programs(), *TOOLS)))


def image_facts() -> list[dict[str, Json]]:
    """Return the guest images that contain this agent, in the format of `Facts.images`."""
    from iolab.image.build import (  # imported only if there may be guests: the modules that build images are large
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
    """Return the features of an agent's host for carrying or starting guests."""
    looks = (f"{join(argv)} >/dev/null && echo {quote(name)}" for name, argv in SEEN_BY.items())
    there = agent.run(("sh", "-c", "\n".join([*looks, "true"]))).stdout.splitlines()
    return {name: name in there for name in SEEN_BY}


def newer_qemu() -> str | None:
    """Return the version of the local host's QEMU that supports the newer NICs; None: the local host has no such
    QEMU."""
    from iolab.image.emulator import NEWER, find_qemu

    try:
        return ".".join(map(str, find_qemu(NEWER).version))
    except UnsupportedError:
        return None


def planning_facts(agent: Agent, *, guests: bool) -> Facts:
    """Return the facts of the local host that planning needs, in a third of the time of `read_facts`.

    Program versions are not read, and facts about guests are read only with `guests`.
    """
    raw = agent.call("facts.read", {**_asked(), "programs": []}, FACTS_DEADLINE_S)
    return _completed(agent, {**raw, "programs": present(agent, asked_programs())}, guests=guests)[0]


def present(agent: Agent, names: Collection[str]) -> dict[str, str | None]:
    """Return a mapping from each program to its name, or to None if the program is missing."""
    there = set(agent.run(("sh", "-c", LOOK, "sh", *names)).stdout.split("\n"))
    return {name: name if name in there else None for name in names}


def read_facts(agent: Agent) -> tuple[Facts, dict[str, Json]]:
    """Return the facts of the local host, decoded and as stored in facts.json."""
    return _completed(agent, agent.call("facts.read", _asked(), FACTS_DEADLINE_S), guests=True)


def _completed(agent: Agent, raw: dict[str, Json], *, guests: bool) -> tuple[Facts, dict[str, Json]]:
    """Return the agent's facts with the facts that the controller adds."""
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
    """Return stored facts in decoded form; None: the facts have a different version."""
    hello = stored.get("hello")
    own = {name: value for name, value in stored.items() if name != "hosts"}
    try:
        return decode_facts(hello if isinstance(hello, dict) else {}, own)
    except AgentError:
        return None


def changed_facts(stored: Mapping[str, object], now: Mapping[str, object]) -> list[Text]:
    """Return the differences from the stored facts that make trials on this host incomparable with the stored ones.

    Facts that an older version did not read are not compared.
    """
    then, today = _decisive(stored), _decisive(now)
    return [
        Phrase("run.then-and-now", name=name, then=str(then[name]), today=str(today[name]))
        for name in then
        if then[name] != today.get(name)
    ]


def changed_readiness(stored: Mapping[str, object], now: Mapping[str, object]) -> list[Text]:
    """Return the differences in daemons and NICs; trials remain comparable, but may differ."""
    then, today = _readiness(stored), _readiness(now)
    return [
        Phrase("run.then-and-now", name=name, then=str(then[name]), today=str(today[name]))
        for name in then
        if name in today and then[name] != today[name]
    ]


def _readiness(facts: Mapping[str, object]) -> dict[Text, object]:
    found: dict[Text, object] = {"daemons": facts["daemons"]} if "daemons" in facts else {}
    interfaces = facts.get("interfaces")
    for card in interfaces if isinstance(interfaces, list) else ():
        owner = card["name"]
        found |= {Phrase("run.fact-of", fact=name, owner=owner): card[name] for name in CARDS if name in card}
    hosts = facts.get("hosts")
    for host, told in hosts.items() if isinstance(hosts, dict) else ():
        found |= {
            Phrase("run.fact-on-host", fact=name, host=host): value
            for name, value in _readiness(told).items()
        }
    return found


def _decisive(facts: Mapping[str, object]) -> dict[Text, object]:
    found: dict[Text, object] = {name: facts[name] for name in DECISIVE if name in facts}
    for group, names in (("settings", SETTINGS), ("hello", ("rootless",))):
        table = facts.get(group)
        found |= {name: table[name] for name in names if name in table} if isinstance(table, dict) else {}
    known = facts.get("programs")
    found |= {name: known[name] for name in programs() if name in known} if isinstance(known, dict) else {}
    processors = facts.get("processors")
    if isinstance(processors, dict):
        found |= {
            Phrase("run.fact-of", fact=name, owner=Phrase("run.the-processors")): processors[name]
            for name in PROCESSORS
            if name in processors
        }
    hosts = facts.get("hosts")
    for host, told in hosts.items() if isinstance(hosts, dict) else ():
        found |= {
            Phrase("run.fact-of", fact=name, owner=host): value for name, value in _decisive(told).items()
        }
    return found


ADDRESSES, ROUTES = ("ip", "-j", "-4", "addr"), ("ip", "-j", "-4", "route")
EVERYTHING = ("default", "0.0.0.0/0")


def networks_there(agent: Agent) -> list[dict[str, Json]]:
    """Return the networks that an agent's host uses, in the format of `Facts.networks`."""
    if agent.hello.rootless:  # a rootless agent sees no network of the host and cannot disturb one
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
    """Return the calibration that is stored for a host with its kernel; None if no calibration is stored."""
    try:
        found = json.loads(place(identity(host)).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = isinstance(found, dict) and found.get("schema") == SCHEMA and found.get("host") == identity(host)
    return found if same else None


def store_calibration(found: Mapping[str, Json]) -> Path:
    """Store a calibration for later runs; return its path.

    Raises:
        StoreError: the file cannot be written.
    """
    path = place(found["host"])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(found, indent=1))
    except OSError as error:
        raise StoreError(Phrase("run.calibration-not-stored", path=path, reason=error.strerror)) from error
    return path


def place(host: Mapping[str, Json]) -> Path:
    """Return the path of a host's calibration (XDG base directories); the name is a digest of the host's identity."""
    digest = blake2b(json.dumps(host, sort_keys=True).encode(), digest_size=8).hexdigest()
    return cache_folder() / f"calibration-{digest}.json"


def identity(host: Mapping[str, Json]) -> dict[str, Json]:
    """Return the conditions under which a calibration is valid."""
    return {name: host.get(name) for name in ("hostname", "kernel", "architecture", "cpu_model", "cpus")}


def with_named_programs(facts: Facts, agents: Agents, experiment: Experiment) -> Facts:
    """Return the facts of all hosts with the availability of the programs that an experiment names.

    Raises:
        AgentError: an agent is lost.
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
    """Return whether a guest image contains each program; empty if the image cannot be inspected."""
    from iolab.image.build import (
        find,
    )  # imported only to inspect an image: the modules that build images are large
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
                continue  # planning reports this problem to the user
            found |= dict.fromkeys(_named(model))
    return tuple(found)


def _named(model: BaseModel | None) -> Iterator[str]:
    """Yield the programs that a measure or a machine names."""
    if isinstance(model, Host | Netns | Vm):
        yield from programs_of(model)
    elif isinstance(model, Measure):
        yield from (program for _, program in measure_kinds()[model.kind].named_programs(model))
