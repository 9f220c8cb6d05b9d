from stomprelay.pipeline.read import columns

class FrameColumns(columns.FrameColumns):
    """The compiled `columns.FrameColumns`."""
