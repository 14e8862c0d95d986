"""Every file that the package reads, damaged in every way that a drawn number thinks of."""
