"""Features of a kernel and the modules that make them; their names are those of a host's facts."""

from collections.abc import Mapping
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
"""Module that makes a feature."""
