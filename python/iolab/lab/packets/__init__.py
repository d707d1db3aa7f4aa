"""Prerequisites of packet trials: frames, the path through a lab, and the CPU of each part. Pure."""
