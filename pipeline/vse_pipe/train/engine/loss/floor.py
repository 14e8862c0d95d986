"""A constant that options and the loss they are of share."""

# What the authors of L2RM add to the labels 1 and 0.
FLOOR = 1e-7
