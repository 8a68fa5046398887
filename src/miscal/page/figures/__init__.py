"""The one drawing module of the page: records in, an SVG with its words and its data out; numpy only.

`scales` maps data to pixels, `marks` and `axes` draw, and the other files hold the figures.
"""
