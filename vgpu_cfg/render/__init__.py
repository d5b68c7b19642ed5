"""What plans, runs, inventories and errors look like on a terminal, in a log and as JSON.

Each room is loaded by itself, since rich takes its time: `console` and `errors` for
any command, `plan_text`, `progress` and `summary` for plan and apply,
`inventory_text`, `status_text`, `profiles_text` for theirs, `runbook` and `as_run` for documents, `data` for
JSON.
"""
