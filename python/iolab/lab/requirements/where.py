"""Who must have what is needed on a kernel. Pure."""

from iolab.experiment.experiment import Lab
from iolab.lab.guests.vm import image_of
from iolab.lab.kernels import HERE
from iolab.lab.requirements.need import IMAGE, OTHER_HOST


def where(lab: Lab, kernel: str) -> str:
    """Return who must have what is needed on a kernel."""
    if kernel == HERE:
        return ""
    return f"{IMAGE}{image_of(lab, kernel)}" if lab.machines[kernel].kind == "vm" else f"{OTHER_HOST}{kernel}"
