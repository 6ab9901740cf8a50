"""Control flow, stop_gradient, and hooks for higher layers.

control_flow.py has cond, case, while_loop, map_fn and scan. The program layer registers with
condition_hook.py, the vmap transform with vmap_hook.py.
"""
