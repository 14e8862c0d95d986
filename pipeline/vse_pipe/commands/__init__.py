"""Commands of the command line. Each imports its modules when it is called."""
