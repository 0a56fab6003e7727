"""Protobuf to model and back, with every validation rule."""
