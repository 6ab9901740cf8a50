"""Values, primitives and recorders: everything the rest of tapegrad stands on."""
