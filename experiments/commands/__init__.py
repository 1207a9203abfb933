"""Groups of commands: what the command line says about scenarios and tables."""
