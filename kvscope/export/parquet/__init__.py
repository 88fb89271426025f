"""A recording as a folder of Parquet files; docs/parquet.md has their columns."""
