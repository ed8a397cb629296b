"""`composites init`: write a small package of a vendor, which installs and passes its tests.

    name -> checked name -> files -> a folder

`name` checks a name, `package` renders the files from `templates`, and `command` writes all files
or none.
"""
