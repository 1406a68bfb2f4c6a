-- Merges a folder of summaries that `xray summarize` wrote. The result is a summary, too.
COPY (
WITH totals AS (
  SELECT program, build_id, host, labels, unit, path, depth, "function", symbol, file, line, object,
    sum(calls)::BIGINT AS calls, sum(time)::BIGINT AS time, sum(self_time)::BIGINT AS self_time, min(min) AS min, max(max) AS max,
    sum(on_cpu)::BIGINT AS on_cpu, sum(blocked)::BIGINT AS blocked, sum(queued)::BIGINT AS queued,
    sum(open_calls)::BIGINT AS open_calls, sum(open_time)::BIGINT AS open_time, sum(open_self_time)::BIGINT AS open_self_time,
    sum(nested_time)::BIGINT AS nested_time, sum(inferred)::BIGINT AS inferred, sum(left_calls)::BIGINT AS left_calls,
    sum(tail_exited)::BIGINT AS tail_exited, sum(continued)::BIGINT AS continued, sum(untimed_calls)::BIGINT AS untimed_calls,
    sum(pruned_calls)::BIGINT AS pruned_calls, sum(pruned_time)::BIGINT AS pruned_time,
    sum(folded_calls)::BIGINT AS folded_calls, sum(folded_self_time)::BIGINT AS folded_self_time
  FROM 'summaries/*.parquet' GROUP BY ALL
), counts AS (
  SELECT program, build_id, host, labels, unit, path, depth, "function", symbol, file, line, object, b.bin AS bin,
    sum(b.durations)::BIGINT AS durations, sum(b.self_times)::BIGINT AS self_times, sum(b.coarse)::BIGINT AS coarse
  FROM (SELECT *, unnest(bins) AS b FROM 'summaries/*.parquet') GROUP BY ALL
), histograms AS (
  SELECT program, build_id, host, labels, unit, path, depth, "function", symbol, file, line, object,
    list({'bin': bin, 'durations': durations, 'self_times': self_times, 'coarse': coarse} ORDER BY bin) AS bins
  FROM counts GROUP BY ALL
)
SELECT * FROM totals LEFT JOIN histograms USING (program, build_id, host, labels, unit, path, depth, "function", symbol, file, line, object)
) TO 'merged.parquet' (COMPRESSION zstd);
