# Prints the rows of each file as JSON objects.
import base64, json, sys
import pyarrow.parquet as pq

files = [pq.read_table(file).to_pylist() for file in sys.argv[1:]]
print(json.dumps(files, default=lambda v: base64.b64encode(v).decode() if isinstance(v, bytes) else str(v)))
