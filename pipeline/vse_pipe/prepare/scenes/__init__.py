"""The data set ``shapes``: scenes sampled, drawn and described by this code from a seed."""
