"""The sections of the page; see ``vse_pipe.report.engine.page`` for what a section is."""
