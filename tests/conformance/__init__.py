"""The hooks' account of a program against the virtual GPU's own log of it."""
