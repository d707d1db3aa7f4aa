"""What packet trials need: frames, the way through a lab, and the CPU of each part. Pure."""
