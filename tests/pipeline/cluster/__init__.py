"""The pipeline on clusters of this machine: real ones, with executors in processes of their own."""
