"""From outcomes to tables on screen, figures and reports."""
