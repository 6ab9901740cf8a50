"""The control channel between the processes of a program: who is there, and who has failed.

Sockets carry short control messages here. Arrays travel through MPI and NCCL.
"""
