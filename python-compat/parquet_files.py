"""Writes the Parquet files that tests/cpu/data reads, with pyarrow.

    python -m venv DIR
    DIR/bin/pip install pyarrow==26.0.1
    DIR/bin/python python-compat/parquet_files.py

Each has 500 rows in two row groups: `number`, `text` (a null for every third row), `flag`, `parts`
(lists of up to three numbers) and `zeros`, a column that compresses well.
"""

import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = pathlib.Path(__file__).parent.parent / "tests/cpu/data/files"
ROWS = range(500)


def table():
    return pa.table(
        {
            "number": pa.array(ROWS, pa.int64()),
            "text": pa.array([f"row {n % 50}" if n % 3 else None for n in ROWS]),
            "flag": pa.array([n % 2 == 1 for n in ROWS]),
            "parts": pa.array([[n] * (n % 4) for n in ROWS], pa.list_(pa.int64())),
            "zeros": pa.array([0.0] * len(ROWS), pa.float64()),
        }
    )


def main():
    for codec in ["zstd", "brotli"]:
        for version in ["1.0", "2.0"]:
            pq.write_table(
                table(),
                FOLDER / f"{codec}_v{version[0]}.parquet",
                compression=codec,
                data_page_version=version,
                row_group_size=300,
                # The numbers and zeros are written as they are.
                use_dictionary=["text"],
            )


if __name__ == "__main__":
    main()
