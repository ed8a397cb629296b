"""Reports about a module: composites (`report`), casts (`cast_report`), tables (`table`)."""
