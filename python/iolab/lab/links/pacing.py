"""iolab's own pacer at a port: the first stage of one way of the wire that the link then is."""

from iolab.experiment.experiment import Lab
from iolab.experiment.model.quantities import PortRef
from iolab.lab.links.link_topology import is_paced
from iolab.lab.links.pacer import PacedClass, PacedFlow, Pacing
from iolab.lab.links.shaping import selectors_of
from iolab.lab.topology import Topology


def pacing_at(lab: Lab, topology: Topology, link: str, port: PortRef) -> Pacing | None:
    """Return the pacer at an end of a link, for the frames that it sends; None: it has none.

    Raises:
        InputError: a class is selected by what has no address.
    """
    shape = lab.links[link].shape
    if shape is None or shape.at != port or not is_paced(lab, link):
        return None
    places = {name: place for place, name in enumerate(shape.classes)}
    flows = (
        PacedFlow(source, destination, places[name])
        for name, one in shape.classes.items()
        for source, destination in selectors_of(topology, link, one)
    )
    whole = (PacedClass(shape.rate_bps, shape.rate_bps),)
    return Pacing(
        rate_bps=shape.rate_bps,
        classes=tuple(PacedClass(one.rate, one.most_bps) for one in shape.classes.values()) or whole,
        flows=tuple(flows),
        default=places[shape.default] if shape.default else None if places else 0,
        limit_bytes=shape.limit,
        burst_bytes=shape.burst,
    )
