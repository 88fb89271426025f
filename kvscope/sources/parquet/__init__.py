"""A folder of Parquet files that `kvscope export --parquet` wrote: its tables, and reading it back.

Only `rows`, `reading` and `stored` import pyarrow, and they are imported only where such a folder is met.
"""
