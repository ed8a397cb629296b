"""Finding functions of a package that have the same code as a named function.

For entries with the key `copies`, this happens when a module of the package has been imported.
`codes` reads the code of functions from files, without importing a module. `same` compares two
functions and the meaning of their names, with `members` for the class members that methods read.
`search` looks through the modules of a package. This package changes no function;
`lowering.installation` does.
"""
