"""The page: a fleet's numbers over time, and a place to try it, over HTTP. Extra `page`.

It is one more client of the fleet, in a process of its own: the broker is asked for its report once a second however
many browsers look, and what is dropped on the page takes the way of any other item.
"""
