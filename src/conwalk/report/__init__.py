"""Pages for people to look at: one file each, complete in itself. Reads datasets only."""
