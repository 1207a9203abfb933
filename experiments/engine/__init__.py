"""From a design to stored runs."""
