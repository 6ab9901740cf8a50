"""Copies between layouts, joins and reshapes."""
