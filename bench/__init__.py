"""How fast the relay is beside what else could stand there, measured side by side in one run. See README.md."""
