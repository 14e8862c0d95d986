"""The sections of the page; see ``pipeline.report.page`` for what a section is."""
