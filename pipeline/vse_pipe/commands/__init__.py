"""Commands of the command line that have a module of their own; each imports what it needs when it is
called."""
