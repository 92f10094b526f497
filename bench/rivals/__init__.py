"""fastspml beside other ways to predict the links of unseen nodes: same splits, same candidates, same budget of time.

A file per rival. `python -m bench.rivals [--quick] [--only rival] [--data name]` measures, and writes the page.
"""
