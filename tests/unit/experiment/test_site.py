"""An experiment on a site: names change, meaning stays; impossible cells are left out with the reason."""

from pathlib import Path

import pytest
from tests.wording import in_words

from iolab.errors import InputError
from iolab.experiment import Resolver, cells, load, parse
from iolab.experiment.experiment import Experiment, Setup
from iolab.experiment.placement import uncabled
from iolab.experiment.site import written_site
from iolab.plan.planning import make_plan
from iolab.plan.support import ANY_HOST, left_out

LAB = """
title: a forwarder
lab:
  machines:
    tester: {kind: netns, settings: {net.ipv4.conf.p0.rp_filter: 0}}
    dut: {kind: vm, forward: bridge, cpus: 1}
  links:
    west: {ends: [tester.p0, dut.eth0], addresses: {tester.p0: 198.18.7.1/24, dut.eth0: 198.18.7.2/24}}
    east: {ends: [tester.p1, dut.eth1]}
measure:
  rate: {kind: forwarding, from: tester.p0, to: tester.p1, watch: [west]}
factors:
  machines.*.nic: [e1000, virtio-net]
  machines.*.settings.net.core.somaxconn: ["100", "200"]
  links.west.mtu: [1500, 9000]
"""
SITE = """
hosts: {tester: root@tester, pc1: pc1}
on: {dut: pc1}
cables:
  west: [tester.enp1s0f0, pc1.enp4s0f0]
  east: [tester.enp1s0f1, pc1.enp4s0f1]
"""
XEN = """
lab:
  machines:
    pc6: {kind: vm, image: xen, memory: 2G, cpus: 2}
    pc7: {kind: vm, image: xen, memory: 2G, cpus: 2}
    dom1: {kind: vm, engine: xen, on: pc6}
  links:
    lan: {ends: [pc6.eth0, pc7.eth0], offload: {tx_checksum: on}}
    br6: {ends: [pc6.eth0, dom1.eth0]}
measure: {tcp: {kind: stream, from: dom1, to: pc7}}
factors:
  network: {plain: {}, vlan: {links.lan.vlan: 100}}
"""
XEN_SITE = "hosts: {pc6: root@pc6, pc7: pc7}\ncables: {lan: [pc6.enp2s0, pc7.enp3s0]}\n"


def on_site(lab: str, site: str, folder: Path) -> Experiment:
    """Return a lab on a site, both read from files."""
    (folder / "lab.yaml").write_text(lab)
    (folder / "site.yaml").write_text(site)
    return load(folder / "lab.yaml", folder / "site.yaml")


def setups(experiment: Experiment) -> list[Setup]:
    """Return every cell resolved."""
    resolver = Resolver(experiment)
    return [resolver.setup(cell) for cell in cells(experiment)]


def refused(lab: str, site: str, folder: Path) -> str:
    """Return why a site is refused."""
    with pytest.raises(InputError) as caught:
        on_site(lab, site, folder)
    return str(caught.value)


def test_on_a_site_machines_become_hosts_or_guests_and_links_become_cables(tmp_path: Path) -> None:
    """Place the tester on a host, and the guest on another, bridged to the cable."""
    first = setups(on_site(LAB, SITE, tmp_path))[0]
    machines, links = first.lab.machines, first.lab.links
    assert (machines["tester"].kind, machines["pc1"].kind, machines["dut"].on) == ("host", "host", "pc1")
    assert getattr(machines["tester"], "ssh", None) == "root@tester"
    assert links["west"].ends == ("tester.enp1s0f0", "pc1.enp4s0f0")
    assert links["west"].cable
    assert links["west-pc1"].ends == ("pc1.enp4s0f0", "dut.eth0")
    assert links["west"].addresses == {"tester.enp1s0f0": "198.18.7.1/24"}
    assert links["west-pc1"].addresses == {"dut.eth0": "198.18.7.2/24"}
    assert machines["tester"].settings == {
        "net.ipv4.conf.enp1s0f0.rp_filter": "0",
        "net.core.somaxconn": "100",
    }
    rate = first.measures["rate"]
    assert (getattr(rate, "src", None), getattr(rate, "dst", None)) == ("tester.enp1s0f0", "tester.enp1s0f1")


def test_star_in_a_site_file_matches_only_the_machines_of_the_lab(tmp_path: Path) -> None:
    """Keep the settings of the host that the site adds."""
    last = setups(on_site(LAB, SITE, tmp_path))[-1].lab.machines
    assert last["pc1"].settings == {}
    assert last["dut"].settings == {"net.core.somaxconn": "200"}
    assert getattr(last["dut"], "nic", None) == "virtio-net"


def test_link_mtu_on_a_site_applies_to_the_cable_and_to_the_link_of_the_guest(tmp_path: Path) -> None:
    """Vary every link that the lab's link became."""
    found = [setup.lab.links for setup in setups(on_site(LAB, SITE, tmp_path))]
    assert {(links["west"].mtu, links["west-pc1"].mtu) for links in found} == {(1500, 1500), (9000, 9000)}
    assert {links["east"].mtu for links in found} == {1500}


def test_virtual_hosts_on_a_site_become_real_hosts_and_keep_their_guests(tmp_path: Path) -> None:
    """Use the NIC's name for the port of the guest, and the cable's VLAN."""
    plain, vlan = setups(on_site(XEN, XEN_SITE, tmp_path))
    assert plain.lab.machines["pc6"].model_dump(exclude_defaults=True) == {"kind": "host", "ssh": "root@pc6"}
    assert plain.lab.links["br6"].ends == ("pc6.enp2s0", "dom1.eth0")
    assert plain.lab.links["lan"].offload.tx_checksum == "on"
    assert vlan.lab.links["lan"].vlan == 100


def test_stored_experiment_with_its_site_gives_the_same_plan(tmp_path: Path) -> None:
    """Store the site as a key of the experiment."""
    there = on_site(LAB, SITE, tmp_path)
    again = parse(there.text, "experiment.yaml")
    assert there.text.startswith(LAB.rstrip())
    assert make_plan(again, ANY_HOST).digest == make_plan(there, ANY_HOST).digest
    assert make_plan(there, ANY_HOST).digest != make_plan(parse(LAB, "lab.yaml"), ANY_HOST).digest


def test_cell_without_a_cable_on_the_site_is_left_out_with_the_line_to_add(tmp_path: Path) -> None:
    """Leave out a level with more links than the site has cables; keep the others."""
    more = """
  guests:
    one: {}
    two:
      machines.dut2: {kind: vm, forward: bridge}
      links.west2: {ends: [tester.p2, dut2.eth0]}
"""
    there = on_site(LAB + more, SITE.replace("dut: pc1", "dut: pc1, dut2: pc1"), tmp_path)
    (reason,) = map(in_words, left_out(there))
    assert "no cable for link west2 (tester.p2 on tester, dut2.eth0 on pc1)" in reason
    assert "add link west2 under `cables` with an interface of each host (tester, pc1)" in reason
    left = [each for each in make_plan(there, ANY_HOST).unsupported if each.reason.code == "site-lacks-cable"]
    assert {each.cell["guests"] for each in left} == {"two"}
    assert uncabled(there.site, setups(there)[0].lab) is None if there.site else False


def test_level_that_sets_a_fixed_property_of_a_host_is_left_out(tmp_path: Path) -> None:
    """Report that a host's memory cannot be set."""
    lab = XEN + "  memory: {small: {machines.pc6.memory: 1G}, as it is: {}}\n"
    there = on_site(lab, XEN_SITE, tmp_path)
    seen = in_words(there.absent["memory"]["small"])
    assert (
        seen
        == "machines.pc6.memory: at this site, pc6 is the existing host root@pc6, on which iolab does not set `memory`"
    )
    assert [setup.lab.links["lan"].vlan for setup in setups(there)] == [None, None, 100, 100]


def test_measure_that_needs_one_clock_is_left_out_between_two_hosts(tmp_path: Path) -> None:
    """Allow two namespaces with one clock, not two hosts."""
    lab = """
lab:
  machines: {a: {kind: netns}, b: {kind: netns}}
  links: {wire: {ends: [a.p0, b.p0]}}
measure: {rate: {kind: latency, from: a.p0, to: b.p0, rate: 1kpps}, tcp: {kind: stream, from: a, to: b}}
"""
    there = on_site(lab, "hosts: {a: pc1, b: pc2}\ncables: {wire: [a.eth1, b.eth1]}\n", tmp_path)
    (reason,) = map(in_words, left_out(there))
    assert "timestamps of two clocks cannot be compared" in reason
    assert {each.measure for each in make_plan(there, ANY_HOST).unsupported} >= {"rate"}


@pytest.mark.parametrize(
    ("site", "said"),
    [
        (SITE.replace("dut: pc1", "dat: pc1"), "site.yaml:3: placing dat: saw dat; allowed: a machine: tester, dut"),
        (SITE.replace("east:", "eats:"), "site.yaml:6: placing eats: saw eats; allowed: a link: west, east; did"),
        (SITE.replace("pc1: pc1}", "pc1: pc1, pc9: pc9}"), "saw pc9, on which no machine runs"),
        (SITE.replace("on: {dut: pc1}", "on: {dut: pc2}"), "on.dut: saw pc2; allowed: one of `hosts`: tester, pc1"),
        (SITE.replace("{dut: pc1}", "{tester: pc1, dut: pc1}"), "tester, which is itself a host of the site"),
        (SITE.replace("on: {dut: pc1}\n", ""), "placing pc1: saw pc1, on which no machine runs"),
        (SITE.replace("pc1.enp4s0f1", "pc1.enp4s0f0"), "the cable west already uses this one"),
        (SITE.replace("pc1.enp4s0f1", "pc1"), "HOST.INTERFACE"),
        (SITE.replace("root@tester", "-oProxy"), "reading site.hosts.tester: saw -oProxy"),
        (SITE + "cable: {}\n", "'cable'; allowed: the keys hosts, on, cables, volumes; did you mean 'cables'?"),
        ("", "saw an empty file; allowed: a mapping with the keys hosts, on, cables"),
        ("hosts: {}\n", "no hosts"),
        ("hosts: [a]\n", "a mapping {NAME: ...}"),
        (SITE.replace("west: [tester.enp1s0f0, pc1.enp4s0f0]", "west: tester.enp1s0f0"), "list of at least two items"),
    ],
)  # fmt: skip
def test_invalid_site_is_refused_with_its_line(site: str, said: str, tmp_path: Path) -> None:
    """Refuse unknown names, unused hosts, duplicate interfaces, and anything that is not a site."""
    assert said in refused(LAB, site, tmp_path)


def test_forwarding_by_xdp_is_refused_on_a_host(tmp_path: Path) -> None:
    """Advise the placement on the host."""
    lab = LAB.replace("{kind: vm, forward: bridge, cpus: 1}", "{kind: netns, forward: xdp}").replace(
        "  machines.*.nic: [e1000, virtio-net]\n", ""
    )
    site = "hosts: {tester: t, dut: d}\ncables: {west: [tester.a, dut.a], east: [tester.b, dut.b]}\n"
    assert "`on: {dut: HOST}`" in refused(lab, site, tmp_path)


def test_second_site_for_an_experiment_with_a_site_is_refused(tmp_path: Path) -> None:
    """Refuse `--site` if the file has a site."""
    there = on_site(LAB, SITE, tmp_path)
    assert "remove the key `site` from the experiment file" in refused(there.text, SITE, tmp_path)


def test_experiment_in_yaml_flow_style_is_refused_on_a_site(tmp_path: Path) -> None:
    """Refuse it before the run, because one file in braces cannot store the site."""
    flow = "{lab: {machines: {a: {kind: netns}}}, measure: {m: {kind: disk, on: a, program: fio}}}"
    assert "storing the site" in refused(flow, "hosts: {a: pc1}\n", tmp_path)


DISKS = """
lab:
  machines:
    pc2: {kind: netns}
    pc3: {kind: netns}
  links: {san: {ends: [pc2.eth0, pc3.eth0]}}
  volumes:
    local: {on: pc2, size: 64M}
    lun0: {on: pc3, size: 64M, export: iscsi}
measure: {fio: {kind: disk, program: hdparm, on: pc2}}
factors:
  path:
    Local: {machines.pc2.disks: [{volume: local}]}
    iSCSI: {machines.pc2.disks: [{volume: lun0, via: user}]}
    large: {volumes.lun0.size: 128M, machines.pc2.disks: [{volume: lun0, via: user}]}
"""
DISK_SITE = """
hosts: {pc2: root@pc2, pc3: root@pc3}
cables: {san: [pc2.eth1, pc3.eth1]}
volumes:
  local: {device: /dev/disk/by-id/nvme-x, writes: allowed}
  lun0: {target: {portal: pc3, iqn: "iqn.2006-09.jp.example:lun0", lun: 1, chap: {user: u, secret: {env: BOX}}}}
"""


def test_volumes_of_a_lab_become_the_devices_and_targets_of_a_site(tmp_path: Path) -> None:
    """Keep the machine of a device; a level that changes a volume of the site is left out, with the reason."""
    experiment = on_site(DISKS, DISK_SITE, tmp_path)
    volumes = setups(experiment)[0].lab.volumes
    assert (volumes["local"].device, volumes["local"].on) == ("/dev/disk/by-id/nvme-x", "pc2")
    assert volumes["local"].writes == "allowed"
    target = volumes["lun0"].existing_target
    assert target is not None
    assert (target.machine, target.port, target.unit) == ("pc3", 3260, 1)
    assert volumes["lun0"].export is None
    reasons = [in_words(reason) for labels in experiment.absent.values() for reason in labels.values()]
    assert any("volumes.lun0.size" in reason and "provides volume lun0" in reason for reason in reasons)


def test_site_with_volumes_is_stored_and_read_again(tmp_path: Path) -> None:
    """Write the site into the experiment."""
    site = on_site(DISKS, DISK_SITE, tmp_path).site
    assert site is not None
    (tmp_path / "stored.yaml").write_text(DISKS + written_site(site))
    again = load(tmp_path / "stored.yaml")
    assert again.site is not None
    assert setups(again)[0].lab.volumes == setups(on_site(DISKS, DISK_SITE, tmp_path))[0].lab.volumes


@pytest.mark.parametrize(
    ("volume", "seen"),
    [
        ("local: {size: 1G}", "one of the keys device, folder and target"),
        ("local: {device: sda}", "/dev/disk/by-id/NAME"),
        ("local: {folder: /data, writes: allowed}", "the keys folder, on"),
        ("locl: {folder: /data}", "did you mean 'local'?"),
        ("lun0: {target: {portal: pc3, lun: 1}}", "one of iqn (iSCSI)"),
    ],
)
def test_invalid_volume_of_a_site_is_refused(volume: str, seen: str, tmp_path: Path) -> None:
    """Name the allowed keys."""
    site = DISK_SITE.split("volumes:", maxsplit=1)[0] + f"volumes: {{{volume}}}\n"
    assert seen in refused(DISKS, site, tmp_path)
