"""Walk the plan: bring the lab about through the agents, read back, measure, append; interrupt, resume, extend."""
