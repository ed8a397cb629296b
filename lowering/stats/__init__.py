"""`composites.stats()`: the outcomes of the calls that entries could have caught.

`data` has the values, and their form in the file of XLA_COMPOSITE_STATS. `collect` reads the values
of this process.
"""
