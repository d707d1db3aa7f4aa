"""What the parts of a lab, and the whole lab, need of a host. Pure."""
