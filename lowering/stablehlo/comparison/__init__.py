"""`compare`: a kernel and the decomposition that it replaces, on the same operands.

distinct calls of a module (inspection)
    -> isolate    one call as small modules: its decomposition, and the call alone
    -> inputs     operands for it
    -> compare    runs decomposition, decomposition in f64 and kernel; difference, timing
    -> results    data and JSON
    -> table
"""
