"""A lab is composed of resources; the difference between two labs lists resources to undo and to create."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iolab.errors import InputError
from iolab.experiment.experiment import Lab
from iolab.lab.actions import Command, CreateNetns, Run, Setting, Write, filled
from iolab.lab.compose import compose, setting_path
from iolab.lab.resources import Change, Resource, difference, undo_keys

MakeLab = Callable[[Mapping[str, object], Mapping[str, object]], Lab]
HTB = {
    "at": "a.eth0", "qdisc": "htb", "rate": "600Mbit", "burst": "100K",
    "classes": {"g": {"rate": "400Mbit", "ceil": "600Mbit", "burst": "100K", "from": "a", "to": "b"}},
}  # fmt: skip


def typed(lab: tuple[Resource, ...], key: str) -> list[str]:
    """Return the commands of one resource."""
    (resource,) = [one for one in lab if one.key == key]
    return [" ".join(run.do.argv) for run in resource.actions if isinstance(run, Run)]


def runs(lab: tuple[Resource, ...]) -> Iterator[Run]:
    """Yield every command of a lab."""
    for resource in lab:
        for action in resource.actions:
            if isinstance(action, Run):
                yield action


@pytest.fixture
def pair(make_lab: MakeLab) -> Callable[..., tuple[Resource, ...]]:
    """Provide a maker of two machines with one link with given attributes."""

    def make(**link: object) -> tuple[Resource, ...]:
        return compose(make_lab({"a": "none", "b": "none"}, {"x": {"ends": ["a.eth0", "b.eth0"], **link}}))

    return make


def test_shaped_port_gets_the_tc_commands_of_its_classes(pair: Callable[..., tuple[Resource, ...]]) -> None:
    """Compare root, root class, class, leaf and filter of htb, with rates in bit/s and sizes in bytes."""
    match = "match ip src 198.18.0.1/32 match ip dst 198.18.0.2/32"
    assert typed(pair(shape=HTB), "qdisc:a.eth0") == [
        "tc qdisc replace dev eth0 root handle 1: htb default 0",
        "tc class add dev eth0 parent 1: classid 1:1 htb rate 600000000bit burst 102400b",
        "tc class add dev eth0 parent 1:1 classid 1:10 htb rate 400000000bit ceil 600000000bit burst 102400b",
        "tc qdisc add dev eth0 parent 1:10 pfifo limit 1000",
        f"tc filter add dev eth0 parent 1: protocol ip pref 1 u32 {match} flowid 1:10",
    ]


def test_htb_without_classes_shapes_all_traffic(pair: Callable[..., tuple[Resource, ...]]) -> None:
    """Use its only class as the default."""
    commands = typed(pair(shape={"at": "b.eth0", "qdisc": "htb", "rate": "1Gbit"}), "qdisc:b.eth0")
    assert commands[0].endswith("htb default 1")
    assert commands[-1] == "tc qdisc add dev eth0 parent 1:1 pfifo limit 1000"


def test_class_numbers_of_seventeen_classes_are_hexadecimal(
    pair: Callable[..., tuple[Resource, ...]],
) -> None:
    """Use the named class as the default, because tc reads class numbers as hexadecimal."""
    classes = {f"g{number}": {"rate": "1Mbit"} for number in range(17)}
    shape = {"at": "a.eth0", "qdisc": "htb", "rate": "1Gbit", "classes": classes, "default": "g16"}
    commands = typed(pair(shape=shape), "qdisc:a.eth0")
    assert commands[0].endswith("htb default 20")
    assert "classid 1:1a" in "\n".join(commands)


def test_vlan_interface_has_the_address_and_the_shaper(pair: Callable[..., tuple[Resource, ...]]) -> None:
    """Apply address, qdisc and the upper MTU to the sub-interface, and offloads to the port."""
    lab = pair(vlan=100, mtu=9000, shape=HTB, offload={"tso": "off"})
    assert typed(lab, "vlan:a.eth0")[0] == "ip link add link eth0 name eth0.100 type vlan id 100"
    assert typed(lab, "address:a.eth0") == ["ip addr add 198.18.0.1/24 dev eth0.100"]
    assert typed(lab, "qdisc:a.eth0")[0].startswith("tc qdisc replace dev eth0.100 root")
    assert typed(lab, "mtu:x")[:2] == [
        "ip link set dev eth0 mtu 9000",
        "ip link set dev eth0.100 mtu 9000",
    ]
    assert typed(lab, "offload:a.eth0:tso") == ["ethtool -K eth0 tso off"]


def test_mtu_and_offload_changes_are_applied_in_place(pair: Callable[..., tuple[Resource, ...]]) -> None:
    """Recreate the address with a changed VLAN, and nothing below."""
    small, large = pair(mtu=1500, offload={"tso": "on"}), pair(mtu=9000, offload={"tso": "off"})
    change = difference(small, large)
    assert change.undo == ()
    assert change.in_place == {"mtu:x", "offload:a.eth0:tso", "offload:b.eth0:tso"}
    change = difference(pair(vlan=100), pair(vlan=200))
    assert [one.key for one in change.undo] == [
        "address:b.eth0", "address:a.eth0", "mtu:x", "vlan:b.eth0", "vlan:a.eth0",
    ]  # fmt: skip


def test_old_offloads_are_restored_before_new_ones_are_set(
    pair: Callable[..., tuple[Resource, ...]],
) -> None:
    """Restore tso between the levels {tso: off} and {gro: on}."""
    change = difference(pair(offload={"tso": "off"}), pair(offload={"gro": "on"}))
    assert [one.key for one in change.undo] == ["offload:b.eth0:tso", "offload:a.eth0:tso"]
    assert [one.key for one in change.do] == ["offload:a.eth0:gro", "offload:b.eth0:gro"]
    (undo,) = [action.undo for action in change.undo[0].actions if isinstance(action, Run)]
    assert undo is not None
    assert filled(undo, "tso on").argv == ("ethtool", "-K", "eth0", "tso", "on")


def test_original_value_of_a_machine_setting_is_kept_when_the_setting_is_written(make_lab: MakeLab) -> None:
    """Enable forwarding on a router, and disable it explicitly on others."""
    one = {"kind": "netns", "settings": {"net.ipv4.tcp_rmem": "4096  131072 8388608"}}
    lab = compose(make_lab({"a": one, "r": "route"}, {"x": ["a.eth0", "r.eth0"]}))
    written = {one.key: one.actions[0] for one in lab if one.key.startswith("setting:")}
    assert written["setting:a:net.ipv4.ip_forward"] == Write("/proc/sys/net/ipv4/ip_forward", "iolab-a", "0")
    assert written["setting:r:net.ipv4.ip_forward"] == Write("/proc/sys/net/ipv4/ip_forward", "iolab-r", "1")
    (tuning,) = [one for one in lab if one.key == "setting:a:net.ipv4.tcp_rmem"]
    assert tuning.held
    assert tuning.expect[0].expected == "4096 131072 8388608"
    assert undo_keys(tuning) == ("setting:iolab-a:/proc/sys/net/ipv4/tcp_rmem",)


def test_change_of_conf_default_recreates_the_interfaces(make_lab: MakeLab) -> None:
    """Recreate them, because `conf.default` affects only later interfaces."""

    def with_filter(value: str) -> tuple[Resource, ...]:
        one = {"kind": "netns", "settings": {"net.ipv4.conf.default.rp_filter": value}}
        return compose(make_lab({"a": one, "b": "none"}, {"x": ["a.eth0", "b.eth0"]}))

    change = difference(with_filter("0"), with_filter("1"))
    done = [one.key for one in change.do]
    assert done.index("setting:a:net.ipv4.conf.default.rp_filter") < done.index("veth:x")
    assert "veth:x" in {one.key for one in change.undo}
    assert "netns:a" not in done


def test_setting_name_cannot_leave_proc_sys() -> None:
    """Read dots as separators, and a slash as a dot in an interface's name."""
    assert setting_path("net.ipv4.conf.eth0/100.rp_filter") == "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"
    for name in ("", "net..ipv4", "net.//.x", "/.x"):
        with pytest.raises(InputError, match="a name as printed by sysctl"):
            setting_path(name)


def test_interface_names_that_the_kernel_would_refuse_are_refused(make_lab: MakeLab) -> None:
    """Check 15 characters including a VLAN suffix, and duplicate names."""
    tagged = {"x": {"ends": ["a.longportname", "b.eth0"], "vlan": 100}}
    long_name = make_lab({"a": "none", "b": "none"}, tagged)
    with pytest.raises(InputError, match="at most 15 characters"):
        compose(long_name)
    ends = ["a.p0", "b.p0", "link-x.p0"]
    clash = make_lab({"a": "none", "b": "none", "link-x": "none"}, {"x": ends})
    with pytest.raises(InputError, match="netns:link-x twice"):
        compose(clash)


def test_interfaces_of_the_local_host_are_never_deleted(make_lab: MakeLab) -> None:
    """Delete interfaces only in namespaces of the lab, which is harmless if they do not exist."""
    machines = {"pc": {"kind": "host"}, "a": "none", "b": "none"}
    lab = compose(make_lab(machines, {"x": ["a.eth0", "pc.lab0"], "y": ["pc.lab1", "a.eth1", "b.eth0"]}))
    deletes = [run.undo for run in runs(lab) if run.undo and "del" in run.undo.argv]
    assert len(deletes) == 5
    assert all(undo.netns is not None and undo.netns.startswith("iolab-") for undo in deletes)
    assert not any(isinstance(a, Write) and a.path.endswith("ip_forward") and not a.netns
                   for one in lab for a in one.actions)  # fmt: skip


@given(data=st.data())
def test_commands_of_every_lab_are_ordered_and_deterministic_and_use_no_abbreviations(
    make_lab: MakeLab, data: st.DataObject
) -> None:
    """Order requirements first, keep keys unique, and write names after `dev` or `name`."""
    forward = st.sampled_from(["none", "bridge", "route"])
    machines = data.draw(st.dictionaries(st.sampled_from("abcd"), forward, min_size=2))
    names = st.lists(st.sampled_from(sorted(machines)), min_size=2, max_size=4, unique=True)
    links = {
        f"l{number}": {
            "ends": [f"{machine}.p{number}" for machine in ends],
            "mtu": data.draw(st.sampled_from([1500, 9000])),
            "vlan": data.draw(st.sampled_from([None, 7])),
        }
        for number, ends in enumerate(data.draw(st.lists(names, max_size=4)))
    }
    lab = compose(make_lab(machines, links))
    done: set[str] = set()
    for resource in lab:
        assert set(resource.needs) <= done, resource.key
        assert resource.key not in done
        done.add(resource.key)
    assert compose(make_lab(machines, links)) == lab
    made = {action.name for one in lab for action in one.actions if isinstance(action, CreateNetns)}
    for run in runs(lab):
        for command in (run.do, run.undo):
            if command is not None:
                _check_command(command, made)


def _check_command(command: Command, made: set[str]) -> None:
    assert command.netns in made
    if command.argv[:3] == ("ip", "link", "add"):
        assert command.argv[3] in ("dev", "link")
    if command.argv[:3] == ("ip", "link", "set"):
        assert command.argv[3] == "dev"


def test_nested_htb_classes_are_created_from_the_root(pair: Callable[..., tuple[Resource, ...]]) -> None:
    """Set quantum and queue of each class; only leaves have a queue."""
    classes = {
        "g": {"rate": "100Mbit", "parent": "all", "quantum": "1514", "from": "a"},
        "all": {"rate": "300Mbit", "ceil": "600Mbit"},
        "h": {"rate": "200Mbit", "parent": "all", "leaf": {"qdisc": "codel", "frames": 64}},
    }
    lab = pair(
        shape={"at": "a.eth0", "qdisc": "htb", "rate": "600Mbit", "classes": classes, "gso_max_segs": 4}
    )
    assert typed(lab, "qdisc:a.eth0")[2:7] == [
        "tc class add dev eth0 parent 1:1 classid 1:11 htb rate 300000000bit ceil 600000000bit",
        "tc class add dev eth0 parent 1:11 classid 1:10 htb rate 100000000bit quantum 1514",
        "tc class add dev eth0 parent 1:11 classid 1:12 htb rate 200000000bit",
        "tc qdisc add dev eth0 parent 1:10 pfifo limit 1000",
        "tc qdisc add dev eth0 parent 1:12 codel limit 64",
    ]
    assert typed(lab, "gso:a.eth0") == ["ip link set dev eth0 gso_max_segs 4"]


NAMES = "abcdefgh"


@dataclass
class SimulatedHost:
    """Keeps the existing resources; rejects anything that a kernel would refuse."""

    content: dict[str, str] = field(default_factory=dict)
    needs: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def apply(self, change: Change) -> None:
        """Undo, then do."""
        for resource in change.undo:
            standing_on_it = [key for key in self.content if resource.key in self.needs[key]]
            assert standing_on_it == [], f"{resource.key} is needed by {standing_on_it}"
            del self.content[resource.key]
        for resource in change.do:
            assert all(key in self.content for key in resource.needs), f"{resource.key} is too early"
            assert (resource.key in self.content) == (resource.key in change.in_place)
            assert resource.key not in self.content or resource.held, f"{resource.key} stands already"
            self.content[resource.key] = value_of(resource)
            self.needs[resource.key] = resource.needs


def value_of(resource: Resource) -> str:
    """Return the value that a resource of these tests sets."""
    (action,) = resource.actions
    assert isinstance(action, Write)
    return action.value


@st.composite
def labs(draw: st.DrawFn) -> tuple[Resource, ...]:
    """Generate a lab in dependency order: each resource may need earlier ones; capitals are never held."""
    order = draw(st.lists(st.sampled_from(NAMES), unique=True))
    resources: list[Resource] = []
    for key in sorted(order):
        before = [resource.key for resource in resources]
        needs = draw(st.lists(st.sampled_from(before), unique=True, max_size=3)) if before else []
        value = draw(st.sampled_from("123"))
        write = Write(Setting(f"/proc/sys/{key}").path, None, value)
        resources.append(
            Resource(key=key, machine="m", needs=tuple(needs), actions=(write,), held=key in "bdfh")
        )
    return tuple(resources)


@given(st.lists(labs(), max_size=6))
def test_any_sequence_of_lab_changes_ends_in_the_wanted_lab(sequence: list[tuple[Resource, ...]]) -> None:
    """Leave nothing over, missing, outdated or out of order."""
    host = SimulatedHost()
    standing: tuple[Resource, ...] = ()
    for wanted in [*sequence, ()]:
        host.apply(difference(standing, wanted))
        assert host.content == {resource.key: value_of(resource) for resource in wanted}
        host.needs = {resource.key: resource.needs for resource in wanted}
        standing = wanted


@given(labs())
def test_lab_is_undone_in_reverse_order(lab: tuple[Resource, ...]) -> None:
    """Reverse the order of everything that was done."""
    done, undone = difference((), lab), difference(lab, ())
    assert done.do == lab
    assert undone.undo == tuple(reversed(lab))
    assert (done.undo, undone.do) == ((), ())


@given(labs())
def test_equal_labs_have_an_empty_difference(lab: tuple[Resource, ...]) -> None:
    """Run no command."""
    assert difference(lab, lab) == Change((), ())


@given(labs(), labs())
def test_difference_touches_only_changed_resources_and_their_dependents(
    standing: tuple[Resource, ...], wanted: tuple[Resource, ...]
) -> None:
    """Keep a resource whose requirements stay; do not undo one that changes in place."""
    change = difference(standing, wanted)
    after = {resource.key: resource for resource in wanted}
    rebuilt = {
        one.key
        for one in standing
        if one.key not in after or (value_of(one) != value_of(after[one.key]) and not one.held)
    }
    while True:
        dependents = {one.key for one in standing if set(one.needs) & rebuilt} - rebuilt
        if not dependents:
            break
        rebuilt |= dependents
    before = {resource.key: value_of(resource) for resource in standing}
    kept = {key for key, resource in after.items() if before.get(key) == value_of(resource)} - rebuilt
    assert {resource.key for resource in change.undo} == rebuilt
    assert {resource.key for resource in change.do} == set(after) - kept
    assert change.in_place == set(after) & set(before) - rebuilt - kept
