"""What is stated of the MTUs of a segment: known of a plan, before anything is measured. Types only."""

from iolab.messages.statement import Name, Statement, TrialWarning


class LinkMtu(Statement):
    """The MTU of a link."""

    link: Name
    mtu_bytes: int


class SegmentMtusDiffer(TrialWarning):
    """Links that bridges join to one segment have different MTUs: a bridge drops what is too long for its next port."""

    links: tuple[LinkMtu, ...]
    """In the order of the file."""
