"""Guests of a run: started, watched, pinned and ended through the agent of their parent."""
