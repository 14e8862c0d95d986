"""A branch of a two-branch network (structure-preserving embeddings) on one vector a row, for one
side or both."""

from vse_pipe.train.heads import Branch

build_image = build_text = Branch
