"""Emission: a decomposition as HLO, plus name, attributes and version, becomes one composite.

Nothing here imports torch; the frontends hand in and take out serialized HLO modules.
"""
