"""The report: one HTML file that shows what the tables say. `command` is its command."""
