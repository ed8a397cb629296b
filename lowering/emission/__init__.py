"""Emission: a decomposition as HLO, with a name, attributes and a version, becomes one composite.

No module of this package imports torch. Frontends pass in and receive serialized HLO modules.
"""
