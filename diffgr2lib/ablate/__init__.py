"""Departures from the method, one factor each: other masks, other targets, other rewards."""
