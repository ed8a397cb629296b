"""Programs whose sizes vary: made from recordings at several sizes, and refined to one."""
