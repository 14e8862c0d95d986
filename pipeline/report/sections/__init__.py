"""The sections of the page; see ``pipeline.report.engine.page`` for what a section is."""
