"""The commands that need no room of their own; each module has `add_options` and `main`.

- `run`: `once` and `run`, from the journal to the tables
- `migrate`: brings tables of the previous release up to date, without a journal
- `query`: SQL over the tables
- `catalogue`: `tables`, the tables and their columns in words
"""
