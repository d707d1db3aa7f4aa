"""From an experiment file to a frozen `Experiment`: units resolved, every error at once. Nothing here touches a host."""
