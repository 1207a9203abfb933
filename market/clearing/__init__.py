"""Market clearing as pure functions."""
