"""`tapegrad bench`: workloads, adapters for each library, the runner and its reports."""
