"""What is varied: paths, levels, the cells that they make, and what a cell means."""
