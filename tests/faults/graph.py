"""The graph of the modules' imports, for ``tests.faults.warm``: it takes half a second, and whatever keeps a digest of its code reads it.

grimp reads with threads, which no fork inherits: not for forks that read another copy of the code.
"""

from vse_pipe.project import code

code._graph()
