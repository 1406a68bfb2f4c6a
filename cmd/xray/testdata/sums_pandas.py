# Prints what sumsInSQL of consumers_parquet_test.go computes, using pandas.
import json, sys
import pandas

calls = pandas.read_parquet(sys.argv[1] + "/calls")
traces = pandas.read_parquet(sys.argv[1] + "/traces").set_index("trace")["frequency"]
rows = []
for (trace, id, name), c in calls.groupby(["trace", "function_id", "function"], observed=True):
    done = c[c.ended != "truncated"]
    rows.append([trace, id, name, len(done), len(c) - len(done), sum(c.ended == "left"), sum(c.ended == "inferred"),
                 c.self_ticks.sum(), done.duration_ticks.sum(),
                 done.duration.min() if len(done) else 0, done.duration.max() if len(done) else 0, traces[trace]])
print(json.dumps(rows, default=int))
