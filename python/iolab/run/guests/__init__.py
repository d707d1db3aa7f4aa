"""Guests of a run: started, monitored, pinned and stopped through the agent of their parent."""
