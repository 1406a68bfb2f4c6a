# Prints what sumsInSQL of consumers_parquet_test.go computes, using a pyarrow scan that reads only
# the columns it needs, with a filter for each kind of end.
import json, sys
import pyarrow.compute as pc
import pyarrow.dataset as ds

def open(table):
    return ds.dataset(sys.argv[1] + "/" + table, partitioning=ds.partitioning(flavor="hive"))

key = ["trace", "function_id", "function"]
frequency = {r["trace"]: r["frequency"] for r in open("traces").to_table(columns=["trace", "frequency"]).to_pylist()}

def grouped(filter, *aggregates):
    columns = list(dict.fromkeys(key + [c for c, _ in aggregates]))
    table = open("calls").to_table(columns=columns, filter=filter).group_by(key).aggregate(list(aggregates))
    return {tuple(r[k] for k in key): r for r in table.to_pylist()}

def count(end):
    return {k: r["function_count"] for k, r in grouped(pc.field("ended") == end, ("function", "count")).items()}

done = grouped(pc.field("ended") != "truncated", ("function", "count"), ("duration_ticks", "sum"), ("duration", "min"), ("duration", "max"))
open_, left, inferred = count("truncated"), count("left"), count("inferred")
rows = []
for k, r in grouped(None, ("self_ticks", "sum")).items():
    d = done.get(k, {})
    rows.append(list(k) + [d.get("function_count", 0), open_.get(k, 0), left.get(k, 0), inferred.get(k, 0), r["self_ticks_sum"],
                           d.get("duration_ticks_sum", 0), d.get("duration_min", 0), d.get("duration_max", 0), frequency[k[0]]])
print(json.dumps(rows))
