"""Names of guest images (linux:apache2-utils,nginx-light), and kernel features with their modules."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from iolab.registry.nics import NICS
from iolab.registry.qdiscs import QDISCS

FEATURE_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "link:veth": "veth",
        "link:bridge": "bridge",
        "link:vlan": "8021q",
        "link:macvtap": "macvtap",
        "link:macvlan": "macvlan",
        "link:ipvlan": "ipvlan",
        "link:ifb": "ifb",
        "link:tun": "tun",
        "link:vxlan": "vxlan",
        "ip:6": "ipv6",
        "link:gre": "ip_gre",
        "link:gretap": "ip_gre",
        "link:ip6gre": "ip6_gre",
        "link:ip6gretap": "ip6_gre",
        "link:wireguard": "wireguard",
        "link:bond": "bonding",
        **{f"qdisc:{name}": row.module for name, row in QDISCS.items() if row.module is not None},
        "qdisc:netem": "sch_netem",
        "qdisc:sfq": "sch_sfq",
        "qdisc:codel": "sch_codel",
        "qdisc:fq_codel": "sch_fq_codel",
        **{
            f"congestion:{name}": f"tcp_{name}"
            for name in (
                "bbr",
                "bic",
                "cdg",
                "dctcp",
                "highspeed",
                "htcp",
                "hybla",
                "illinois",
                "lp",
                "nv",
                "scalable",
                "vegas",
                "veno",
                "westwood",
                "yeah",
            )
        },
        "filter:u32": "cls_u32",
        "firewall:nftables": "nf_tables",
        "generator:pktgen": "pktgen",
        "device:vhost-net": "vhost_net",
        "device:kvm": "kvm_amd",
        "device:vfio": "vfio_pci",
        "initiator:iscsi": "iscsi_tcp",
        "initiator:nvme-tcp": "nvme_tcp",
        "initiator:nbd": "nbd",
        "target:iscsi": "iscsi_target_mod",
        "target:nvme-tcp": "nvmet_tcp",
        **{row.feature: row.driver for row in NICS.values()},
        "xen:netback": "xen_netback",
        "xen:netfront": "xen_netfront",
        "xen:blkback": "xen_blkback",
    }
)
"""Kernel module that provides each feature."""
PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
"""Pattern of Debian package names (Debian Policy 5.6.1); excludes options of apt."""


def image_name(flavour: str, packages: Iterable[str]) -> str:
    """Return the image name of a flavour with additional packages, whose order does not matter."""
    more = ",".join(sorted({*packages_of_image(flavour), *packages}))
    return f"{flavour_of_image(flavour)}:{more}" if more else flavour


def flavour_of_image(name: str) -> str:
    """Return the flavour in an image name."""
    return name.partition(":")[0]


def packages_of_image(name: str) -> tuple[str, ...]:
    """Return the additional packages in an image name."""
    return tuple(filter(None, name.partition(":")[2].split(",")))
