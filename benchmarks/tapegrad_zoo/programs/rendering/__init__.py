"""Images made from scenes, and scenes found from images."""
