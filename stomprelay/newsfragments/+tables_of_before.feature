Tables of the release before are read by `query`, `report` and `replay`, and migrated in place by `once` and `run`, or by `stomprelay-pipeline migrate` where the journal is gone.
