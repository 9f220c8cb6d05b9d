`report`, `query`, `replay` and later runs find out by themselves which format the tables have; formats other than `parquet`, `orc` and `delta`, which no test had ever run, are refused.
