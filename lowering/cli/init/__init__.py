"""`composites init`: writes a small package of a vendor, which installs and passes its tests.

    name -> checked name -> files -> a folder

`name` says whether a name can be used, `package` renders the files from `templates`, and `command`
writes them, all or none.
"""
