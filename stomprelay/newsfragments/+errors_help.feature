A client whose upstream failed is told what to do: try again later, for the relay's log says why; or connect again, for what has no receipt may be lost.
