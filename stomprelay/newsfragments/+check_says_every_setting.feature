`stomprelay check` prints every setting that has a value, also those of `map`, by the names that they have in a file.
