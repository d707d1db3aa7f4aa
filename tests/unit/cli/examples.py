"""An experiment file, and a host without any program."""

from pathlib import Path

from iolab.lab.hosts.facts import Facts

GOOD = """
title: Two namespaces
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {lan: {ends: [near.eth0, far.eth0]}}
measure:
  tcp: {kind: stream, from: near, to: far}
factors:
  links.lan.mtu: [1500, 9000]
"""
VM = GOOD.replace("near: {kind: netns}", "near: {kind: vm, engine: qemu}")
FACTS = Facts(
    hostname="pc6",
    kernel="6.1.0",
    architecture="x86_64",
    os="Debian GNU/Linux 12 (bookworm)",
    cpu_model="any",
    cpus=2,
    memory_bytes=8 << 30,
    clocksource="tsc",
    load_1min_milli=0,
)


def written(text: str, name: str = "lab.yaml") -> str:
    """Write an experiment file; return its name."""
    Path(name).write_text(text)
    return name
