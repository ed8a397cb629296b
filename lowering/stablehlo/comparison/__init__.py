"""`compare`: a kernel and the decomposition that it replaces, on the same operands.

distinct calls of a module (inspection), each as small modules (single_calls)
    -> inputs     operands for the call
    -> compare    runs decomposition, decomposition in f64 and kernel; difference, timing
    -> results    data, JSON and a table
"""
