"""Finding the functions of a package whose code is that of a named function.

For entries with the key `copies`, this happens when a module of the package has been imported.
`codes` reads the code of functions from files, without importing a module. `same` compares two
functions and the meaning of their names, with `members` for the members of their class that methods
read. `search` looks through the modules of a package. Nothing here changes a function;
`lowering.installation` does.
"""
