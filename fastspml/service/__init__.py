"""A small HTTP service that predicts the links of new nodes: `LinkService` answers, `LinkServer` listens."""
