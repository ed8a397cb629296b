"""What all tests share: their environment, which is set before anything reads it."""

from composites_testing import environment

environment.prepare()
