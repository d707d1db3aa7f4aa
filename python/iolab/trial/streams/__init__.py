"""Stream trials: limits, disturbances, and the course of the rate over time."""
