"""Records of finished tasks: what they hold, and the journal they are kept in."""
