"""`stomprelay-pipeline migrate`: bring tables of the previous release up to date, without their journal."""

import argparse
import sys

from stomprelay.pipeline import options
from stomprelay.pipeline.bar import ProgressBar
from stomprelay.pipeline.spark import launch
from stomprelay.pipeline.store.delta import opened
from stomprelay.pipeline.store.store import StoreError
from stomprelay.pipeline.store.upkeep import alone, migrate
from stomprelay.pipeline.store.volume import local


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the option of `migrate` to its parser."""
    options.add_tables(parser)


def main(given: argparse.Namespace) -> int:
    """Migrate the tables. Return the exit status. Raises `StoreError`."""
    from stomprelay.pipeline.match.messages import STATE

    spark = options.session(given, "migrate", brief=True, say=options.say)
    with launch.ending(spark):
        store = opened(spark, given.tables, options.table_format(given))
        if not store.volume.exists(store.root):
            raise StoreError(f"there are no tables in {store.root}: the folder does not exist")
        bar = ProgressBar(sys.stderr, "tables")
        with alone(local(store.root)), bar.going():
            bar.begin("migrating")
            done = migrate(store, STATE, bar.set)
    options.say(f"{given.tables}: {'migrated' if done else 'nothing to migrate'}")
    return 0
