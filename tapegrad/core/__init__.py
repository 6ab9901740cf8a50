"""Values, primitives, recorders and backends: the base of all other modules."""
