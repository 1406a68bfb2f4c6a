# Executes a query in an engine, and prints the rows as JSON.
import json, sys

engine, query = sys.argv[1:]
if engine == "duckdb":
    import duckdb
    rows = duckdb.sql(query).fetchall()
elif engine == "chdb":
    import chdb
    text = str(chdb.query(query, "JSONCompactEachRow"))
    rows = [json.loads(line) for line in text.splitlines()]
elif engine == "polars":
    import polars
    rows = polars.SQLContext().execute(query, eager=True).rows()
print(json.dumps(rows, default=str))
