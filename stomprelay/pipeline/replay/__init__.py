"""`stomprelay-pipeline replay`: messages of the tables, sent once more through the relay."""
