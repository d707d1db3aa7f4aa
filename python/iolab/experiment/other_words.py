"""Words of other tools that people write here, and what the language has for each."""

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
_INSTEAD = {
    "top": {word: f"write '{right}' for it" for word, right in _TOP.items()},
    "links": {
        **{word: f"write wire: {{{word}: ...}}" for word in ("delay", "loss", "corrupt", "duplicate")},
        "rate": "write shape: {at: MACHINE.PORT, qdisc: htb, rate: ...}",
        "bandwidth": "write shape: {at: MACHINE.PORT, qdisc: htb, rate: ...}",
    },
    "machines.kind": {
        **dict.fromkeys(
            ("docker", "container", "namespace", "lxc"), "write netns, which is a network namespace"
        ),
        **dict.fromkeys(("qemu", "kvm", "guest"), "write vm, and engine: qemu"),
        **dict.fromkeys(("ssh", "server", "machine"), "write host, and ssh: user@name"),
    },
    "measure.kind": dict.fromkeys(
        ("iperf", "iperf3", "netperf", "tcp", "udp"), "write stream, and protocol: tcp or udp"
    )
    | {"fio": "write disk"},
}


def instead(place: str, word: object) -> str:
    """Return what to write for another tool's word at a place of the document, or nothing."""
    return _INSTEAD.get(place, {}).get(str(word), "")
