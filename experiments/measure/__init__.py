"""From stored tables to outcomes with intervals."""
