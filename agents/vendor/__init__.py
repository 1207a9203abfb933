"""A chip vendor and its desks."""
