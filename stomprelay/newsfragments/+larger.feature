`stomprelay-pipeline once` and `run` read up to 256 MiB of segments at a time by default, twice as much: half as many batches are planned, and memory hardly follows their bytes.
