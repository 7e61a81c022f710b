"""What a report draws of a layer: whole maps where metrics give numbers."""
