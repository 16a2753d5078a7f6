"""Archives: messages of topics in Parquet files, and a manifest that says which of them count."""
