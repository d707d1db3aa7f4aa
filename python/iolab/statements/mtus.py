"""What is stated of the MTUs of a segment: known of a plan, before anything is measured. Types only."""

from iolab.statements.statement import Name, Statement, Warning


class LinkMtu(Statement):
    """The MTU of a link."""

    link: Name
    mtu_bytes: int


class SegmentMtusDiffer(Warning):
    """Links that bridges join to one segment have different MTUs: a bridge drops what is too long for its next port."""

    links: tuple[LinkMtu, ...]
    """In the order of the file."""
