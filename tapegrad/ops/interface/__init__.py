"""Python operators, array methods and the NumPy protocol on tensors.

operators.py has the table of operators, reflected_operators.py the rule for NotImplemented;
array_methods.py binds NumPy's methods, numpy_protocol.py answers NumPy functions called on tensors.
"""
