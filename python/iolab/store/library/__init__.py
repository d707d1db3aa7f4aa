"""A library of runs: a folder of Parquet files, and one immutable manifest per addition."""
