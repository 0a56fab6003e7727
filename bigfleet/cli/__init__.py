"""The command line: settings, command tree, output, and one module per verb."""
