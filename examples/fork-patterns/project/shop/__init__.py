"""A shop that splits what an order costs among those who share it."""
