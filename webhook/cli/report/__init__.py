"""Reports: findings and facts in the form that was asked for.

The rule of this room: values in, text out; it judges nothing. One format is one module, and `write` alone prints.
"""
