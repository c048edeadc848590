"""Writes the Arrow IPC files that tests/cpu/data reads, with pyarrow.

    python -m venv DIR
    DIR/bin/pip install pyarrow==26.0.1
    DIR/bin/python python-compat/arrow_files.py

`arrow_types` has a column of every type, in the file format and in the stream format, and as JSON
with the values that pyarrow reads from its own file. `arrow_dictionary` is a stream whose
dictionary grows, then is replaced. `arrow_refused` has columns of types that are not supported.
"""

import datetime
import decimal
import json
import pathlib

import pyarrow as pa
import pyarrow.feather as feather

FOLDER = pathlib.Path(__file__).parent.parent / "tests/cpu/data/files"
ROWS = 10
EPOCH = datetime.datetime(1970, 1, 1)


def integers(bits, signed):
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return [least, most, 0, 1, None] + [n * most // 7 for n in range(ROWS - 5)]


def every_third(values):
    return [None if n % 3 == 1 else value for n, value in enumerate(values)]


def columns():
    rows = range(ROWS)
    texts = every_third(["é" * (n % 4) + str(n) for n in rows])
    blobs = every_third([bytes([n, 0, 255]) * (n % 3) for n in rows])
    lists = every_third([[n, None, -n][: n % 4] for n in rows])
    for bits in [8, 16, 32, 64]:
        yield f"i{bits}", pa.array(integers(bits, True), f"int{bits}")
        yield f"u{bits}", pa.array(integers(bits, False), f"uint{bits}")
    yield "f16", pa.array(every_third([n / 4 for n in rows]), pa.float16())
    yield "f32", pa.array(every_third([n / 8 - 1 for n in rows]), pa.float32())
    yield "f64", pa.array([n / 10 for n in rows], pa.float64())
    yield "flag", pa.array(every_third([n % 2 == 0 for n in rows]))
    yield "nothing", pa.nulls(ROWS)
    yield "text", pa.array(texts)
    yield "large_text", pa.array(texts, pa.large_utf8())
    longer = [text and text + " and more than 12 bytes" for text in texts]
    yield "text_view", pa.array(longer, pa.string_view())
    yield "bytes", pa.array(blobs)
    yield "large_bytes", pa.array(blobs, pa.large_binary())
    yield "bytes_view", pa.array(blobs, pa.binary_view())
    yield "three_bytes", pa.array(every_third([bytes([n] * 3) for n in rows]), pa.binary(3))
    yield "list", pa.array(lists, pa.list_(pa.int32()))
    yield "large_list", pa.array([[t, t] for t in texts], pa.large_list(pa.utf8()))
    yield "pair", pa.array(every_third([[n, n / 2] for n in rows]), pa.list_(pa.float32(), 2))
    yield "nested", pa.array([[[n], []][: n % 3] for n in rows], pa.list_(pa.list_(pa.uint8())))
    yield "view", pa.array(lists, pa.list_view(pa.int32()))
    yield "large_view", pa.array(lists, pa.large_list_view(pa.int32()))
    yield "record", pa.array(every_third([{"a": n, "b": t} for n, t in enumerate(texts)]))
    yield "map", pa.array(
        every_third([[(str(k), k * n) for k in range(n % 3)] for n in rows]),
        pa.map_(pa.utf8(), pa.int64()),
    )
    yield "word", pa.array(texts).dictionary_encode()
    yield "code", pa.array(integers(64, True)).dictionary_encode().cast(
        pa.dictionary(pa.uint8(), pa.int64())
    )
    yield "words", pa.ListArray.from_arrays(
        list(range(ROWS + 1)), pa.array(texts).dictionary_encode()
    )
    yield "runs", pa.RunEndEncodedArray.from_arrays([3, 4, ROWS], pa.array([7, None, 9]))
    yield "date", pa.array(every_third(list(range(-5, ROWS - 5))), pa.date32())
    yield "date_ms", pa.array([86_400_000 * n for n in rows], pa.date64())
    for unit in ["s", "ms"]:
        yield f"time_{unit}", pa.array(list(rows), pa.time32(unit))
    for unit in ["us", "ns"]:
        yield f"time_{unit}", pa.array(list(rows), pa.time64(unit))
    for unit in ["s", "ms", "us", "ns"]:
        yield f"at_{unit}", pa.array([1000 * n - 3000 for n in rows], pa.timestamp(unit, "UTC"))
        yield f"for_{unit}", pa.array([n - 2 for n in rows], pa.duration(unit))
    numbers = every_third([decimal.Decimal(n * 1001 - 3003) / 100 for n in rows])
    for bits, precision in [(32, 9), (64, 18), (128, 38), (256, 76)]:
        data_type = getattr(pa, f"decimal{bits}")(precision, 3)
        yield f"decimal{bits}", pa.array(numbers, data_type)


def plain(column):
    """Returns the values that pyarrow reads, as JSON has them."""
    data_type = column.type
    if pa.types.is_date(data_type) or pa.types.is_time(data_type):
        column = column.cast(pa.int32() if data_type.bit_width == 32 else pa.int64())
    if pa.types.is_timestamp(data_type) or pa.types.is_duration(data_type):
        column = column.cast(pa.int64())

    def value(x):
        match x:
            case bytes():
                return list(x)
            case decimal.Decimal():
                return f"{x:.3f}"
            case list() if pa.types.is_map(data_type):
                return {key: value(v) for key, v in x}
            case list():
                return [value(v) for v in x]
        return x

    return [value(x) for x in column.to_pylist()]


def write(name, table, new, batch, **options):
    options = pa.ipc.IpcWriteOptions(**options)
    with new(str(FOLDER / name), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=batch)


def main():
    table = pa.table(dict(columns()))
    write("arrow_types_plain.arrow", table, pa.ipc.new_file, 4, unify_dictionaries=True)
    write("arrow_types_plain.arrows", table, pa.ipc.new_stream, 4)
    write("arrow_types_lz4.arrows", table, pa.ipc.new_stream, 4, compression="lz4")
    write(
        "arrow_types_zstd.arrow",
        table,
        pa.ipc.new_file,
        4,
        compression="zstd",
        unify_dictionaries=True,
    )
    back = pa.ipc.open_file(FOLDER / "arrow_types_zstd.arrow").read_all()
    assert back.equals(table)
    values = {name: plain(back[name]) for name in back.column_names}
    rows = [{name: column[n] for name, column in values.items()} for n in range(ROWS)]
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (FOLDER / "arrow_types.jsonl").write_text(lines + "\n")

    batches = [["a", "b"], ["b", "a", "c"], ["c", None, "d"], ["x"], ["y", "x"]]
    table = pa.table({"word": pa.array(batches[0]).dictionary_encode(), "n": [0, 1]})
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    words = []
    path = str(FOLDER / "arrow_dictionary.arrows")
    with pa.ipc.new_stream(path, table.schema, options=options) as writer:
        for batch in batches:
            # The first three dictionaries begin alike, so the file has what was added.
            words = batch if "x" in batch else list(dict.fromkeys(words + [w for w in batch if w]))
            keys = pa.array([words.index(w) if w else None for w in batch], pa.int32())
            column = pa.DictionaryArray.from_arrays(keys, pa.array(words))
            numbers = pa.array(list(range(len(batch))))
            writer.write_batch(pa.record_batch([column, numbers], names=["word", "n"]))

    children = [pa.array([1, 2]), pa.array(["a", "b"])]
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), children)
    months = pa.array([(1, 2, 3), (4, 5, 6)], pa.month_day_nano_interval())
    table = pa.table({"union": union, "n": [1, 2], "interval": months})
    write("arrow_refused.arrow", table, pa.ipc.new_file, 2, compression="zstd")

    rows = range(100)
    texts = [f"row {n}" for n in rows]
    table = pa.table({"number": pa.array(rows), "zeros": [0.0] * len(rows), "text": texts})
    feather.write_feather(table, str(FOLDER / "arrow_rows.feather"), chunksize=30)


if __name__ == "__main__":
    main()
