`stomprelay-pipeline tables --yaml` describes tables and columns as sources of dbt.
