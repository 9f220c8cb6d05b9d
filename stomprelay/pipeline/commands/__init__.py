"""The commands that have no folder of their own. Each module has `add_options` and `main`.

- `run`: the commands `once` and `run`, which make the tables from the journal
- `migrate`: the command that brings tables of the previous release up to date, without a journal
- `query`: the command for SQL over the tables
- `catalogue`: the command `tables`, which describes the tables and their columns
"""
