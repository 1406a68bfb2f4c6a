-- A table of the summaries that `xray summarize` writes. Rows with equal keys merge in the background.
CREATE TABLE xray_summaries (
    day Date,
    program LowCardinality(String), build_id LowCardinality(String), host LowCardinality(String),
    labels LowCardinality(String), unit LowCardinality(String), path String, depth Int32,
    function LowCardinality(String), symbol LowCardinality(String),
    file LowCardinality(String), line Int32, object LowCardinality(String),
    calls SimpleAggregateFunction(sum, Int64), time SimpleAggregateFunction(sum, Int64),
    self_time SimpleAggregateFunction(sum, Int64),
    min SimpleAggregateFunction(min, Nullable(Int64)), max SimpleAggregateFunction(max, Nullable(Int64)),
    on_cpu SimpleAggregateFunction(sum, Nullable(Int64)), blocked SimpleAggregateFunction(sum, Nullable(Int64)),
    queued SimpleAggregateFunction(sum, Nullable(Int64)),
    open_calls SimpleAggregateFunction(sum, Int64), open_time SimpleAggregateFunction(sum, Int64),
    open_self_time SimpleAggregateFunction(sum, Int64), nested_time SimpleAggregateFunction(sum, Int64),
    inferred SimpleAggregateFunction(sum, Int64), left_calls SimpleAggregateFunction(sum, Int64),
    tail_exited SimpleAggregateFunction(sum, Int64), continued SimpleAggregateFunction(sum, Int64),
    untimed_calls SimpleAggregateFunction(sum, Int64), pruned_calls SimpleAggregateFunction(sum, Int64),
    pruned_time SimpleAggregateFunction(sum, Int64), folded_calls SimpleAggregateFunction(sum, Int64),
    folded_self_time SimpleAggregateFunction(sum, Int64),
    durations SimpleAggregateFunction(sumMap, Map(Int32, Int64)),
    self_times SimpleAggregateFunction(sumMap, Map(Int32, Int64)),
    coarse SimpleAggregateFunction(sumMap, Map(Int32, Int64))
) ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (day, program, function, build_id, host, labels, unit, depth, path, symbol, file, line, object);

CREATE FUNCTION xray_value AS (bin) -> if(bin < 256, toInt64(bin),
    bitShiftLeft(toInt64(bin - 128 * (intDiv(bin, 128) - 1)), toUInt8(intDiv(greatest(bin, 256), 128) - 1))
    + intDiv(bitShiftLeft(toInt64(1), toUInt8(intDiv(greatest(bin, 256), 128) - 1)) - 1, 2));

CREATE FUNCTION xray_quantile AS (bins, q) -> xray_value(mapKeys(bins)[arrayFirstIndex(
    seen -> seen > least(toInt64(floor(q * arraySum(mapValues(bins)))), arraySum(mapValues(bins)) - 1),
    arrayCumSum(mapValues(bins)))]);

-- Insert the files of any number of hosts, in any order. A file that is inserted twice counts twice.
INSERT INTO xray_summaries SELECT
    toDate('2026-11-23'), program, build_id, host, labels, unit, path, depth, function, symbol, file, line, object,
    calls, time, self_time, min, max, on_cpu, blocked, queued, open_calls, open_time, open_self_time, nested_time,
    inferred, left_calls, tail_exited, continued, untimed_calls, pruned_calls, pruned_time, folded_calls, folded_self_time,
    mapFilter((k, v) -> v > 0, mapFromArrays(bins.bin, bins.durations)),
    mapFilter((k, v) -> v > 0, mapFromArrays(bins.bin, bins.self_times)),
    mapFilter((k, v) -> v > 0, mapFromArrays(bins.bin, bins.coarse))
FROM file('day/*.parquet', Parquet, 'program String, build_id String, host String, labels String, unit String,
    path String, depth Int32, function String, symbol String, file String, line Int32, object String,
    calls Int64, time Int64, self_time Int64, min Nullable(Int64), max Nullable(Int64),
    on_cpu Nullable(Int64), blocked Nullable(Int64), queued Nullable(Int64),
    open_calls Int64, open_time Int64, open_self_time Int64, nested_time Int64, inferred Int64, left_calls Int64,
    tail_exited Int64, continued Int64, untimed_calls Int64, pruned_calls Int64, pruned_time Int64,
    folded_calls Int64, folded_self_time Int64,
    bins Nested(bin Int32, durations Int64, self_times Int64, coarse Int64)');

-- The 99th percentile of each function by build, for a week.
SELECT build_id, function, sum(calls) AS calls, sum(self_time + open_self_time) AS self,
    xray_quantile(sumMap(durations), 0.99) AS p99
FROM xray_summaries
WHERE day BETWEEN '2026-11-17' AND '2026-11-23'
GROUP BY build_id, function
ORDER BY self DESC
LIMIT 20;
