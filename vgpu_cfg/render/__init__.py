"""Output of plans, runs, inventories and errors: on a terminal, in a log, as JSON and as documents.

Nothing here asks or changes anything. `views` make rows of the content; `text`, `data`, `markdown` and `page`
are the faces that show them, and none of these knows another. Each module is loaded by itself, since rich
takes its time.
"""

from __future__ import annotations
