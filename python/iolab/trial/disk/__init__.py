"""A disk trial: one program on one disk of a machine, and its figures in bytes, operations and nanoseconds."""
